"""What a policy is worth on the wire: allowable rates at equal money, and at equal instances."""

from __future__ import annotations

import asyncio
import math
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.kairos.paper.setting import BUDGET, counts_of, short
from benchmarks.reporting import Json, table, verdict
from benchmarks.router.balancers import STARTS, TITLES
from benchmarks.router.player import Play, runner
from benchmarks.router.processes import ProgramMissingError
from benchmarks.router.setups import Addresses, ScaledModel, Setup, workers
from benchmarks.router.simulated import allowable_rate, on_the_wire

from harness.peers import PeersError
from hetserve.planning import Counts

TITLE: Final = "What it is for: allowable rate at equal money"
LATE: Final = 0.01
LONGEST: Final = 120.0
"""Of a trial [s]: at low rates it has fewer queries."""
BLIND: Final = ("nginx", "envoy", "haproxy")
GOALS: Final = {"blind": 1.7, "haproxy-two": 1.2}
"""Ours over the best balancer that knows no sizes, and over two backends."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One model. ours: counts of ours and of two backends. others: at which who knows no sizes is best, and may be.

    threshold: index of the largest batch for the auxiliary types, at which two backends are best.
    """

    model: ScaledModel
    ours: Counts
    others: tuple[Counts, ...]
    threshold: int


COMPARISONS: Final = (
    Comparison(ScaledModel("RM2", 1.0), counts_of(1, 0, 13, 0), (counts_of(3, 0, 6, 0), counts_of(4, 0, 0, 0)), 85),
    Comparison(ScaledModel.with_slo("DIEN", 0.2), counts_of(2, 0, 9, 0), (counts_of(4, 0, 0, 0),), 39),
)
"""Best counts as of docs/results/kairos.md, of all that the budget buys."""


@dataclass(frozen=True, slots=True)
class FoundRate:
    """rate: the highest that passed; 0: none. above: the lowest that failed; infinite: none. trials: in order."""

    rate: float
    above: float
    trials: tuple[tuple[float, bool], ...]


@dataclass(frozen=True, slots=True)
class RateSearch:
    """Brackets the rate by factors of `step`, squared each time, then halves until it is known to `resolution`.

    most: trials. least: share of the first rate below which none is looked for.
    """

    step: float = 1.1
    resolution: float = 1.03
    most: int = 8
    least: float = 0.25

    async def run(self, guess: float, passes: Callable[[float], Awaitable[bool]]) -> FoundRate:
        """guess: the first rate [queries/s]. passes: whether a rate holds."""
        low, high, step, trials = 0.0, math.inf, self.step, list[tuple[float, bool]]()
        rate = guess
        while len(trials) < self.most:
            passed = await passes(rate)
            trials.append((rate, passed))
            low, high = (rate, high) if passed else (low, rate)
            if low and high <= low * self.resolution:
                break
            if low and high < math.inf:
                rate = math.sqrt(low * high)
            else:
                rate = low * step if low else high / step
                step *= step
            if rate < guess * self.least:
                break
        return FoundRate(low, high, tuple(trials))


@dataclass(frozen=True, slots=True)
class Contest:
    """One setup, how many queries a trial has, and how exactly its rate is looked for.

    guess: what the simulator allows of the same queries; first come, first served where no sizes are known [queries/s].
    """

    setup: Setup
    queries: int
    search: RateSearch
    guess: float

    @property
    def title(self) -> str:
        counts = short(self.setup.counts)
        return f"{self.setup.model.name} {counts} {TITLES[self.setup.balancer]}"

    async def run(self) -> FoundRate:
        async def passes(rate: float) -> bool:
            slo, queries = self.setup.model.slo, min(self.queries, int(rate * LONGEST) + 100)
            play = Play(self.setup.target, on_the_wire(self.setup, queries, rate), slo, int(LATE * queries))
            await play.run()
            print(
                f"  {self.title}: {rate:.1f}/s {'fails' if play.stopped else f'holds, {play.late_share:.2%} late'}",
                flush=True,
            )
            await asyncio.sleep(2 * slo)  # what was broken off still keeps instances busy
            return not play.stopped

        return await self.search.run(self.guess, passes)


def contests(quick: bool) -> list[Contest]:
    addresses, found = Addresses(), list[Contest]()
    fine, coarse = RateSearch(), RateSearch(step=1.5, resolution=1.15, most=5)
    many, few = 4000, 1000
    if quick:
        fine, coarse, many, few = RateSearch(most=2), RateSearch(most=1), 200, 100
    for one in COMPARISONS:
        model = one.model
        ours = Setup("router", model, one.ours, addresses)
        two = Setup("haproxy-two", model, one.ours, addresses, small=model.mix.batches[one.threshold])
        found.append(Contest(ours, many, fine, allowable_rate(ours, many)))
        found.append(Contest(two, many, fine, allowable_rate(two, many, "threshold", one.threshold)))
        for balancer in BLIND:
            for number, counts in enumerate((*one.others, one.ours)):
                setup = Setup(balancer, model, counts, addresses)
                queries, search = (few, coarse) if number else (many, fine)
                found.append(Contest(setup, queries, search, allowable_rate(setup, queries, "fcfs")))
    return found


def measure(quick: bool) -> Json:
    planned, missing = contests(quick), list[str]()
    with tempfile.TemporaryDirectory(prefix="bench-router-") as name, ExitStack() as stack:
        folder = Path(name)
        stack.enter_context(workers(folder, [each.setup for each in planned]))
        for balancer, start in STARTS.items():
            setups = [each.setup for each in planned if each.setup.balancer == balancer]
            try:
                stack.enter_context(start(folder, setups))
            except (ProgramMissingError, PeersError) as error:
                missing.append(str(error))
                planned = [each for each in planned if each.setup.balancer != balancer]
        with runner() as loop:
            rates = loop.run(_all(planned))
    rows = [_row(each, rate) for each, rate in zip(planned, rates, strict=True)]
    return {"rows": rows, "missing": missing}


async def _all(planned: Sequence[Contest]) -> list[FoundRate]:
    return list(await asyncio.gather(*(each.run() for each in planned)))


def _row(contest: Contest, found: FoundRate) -> Json:
    setup = contest.setup
    ours = next(one.ours for one in COMPARISONS if one.model == setup.model)
    return {
        "model": setup.model.name,
        "scale": setup.model.scale,
        "balancer": setup.balancer,
        "counts": short(setup.counts),
        "equalInstances": setup.counts == ours and setup.balancer in BLIND,
        "queries": contest.queries,
        "simulated": contest.guess,
        "rate": found.rate,
        "failed": found.above,
        "trials": [list(trial) for trial in found.trials],
    }


def best(rows: Sequence[Json], model: str, balancers: Sequence[str]) -> Json | None:
    """The row with the highest rate of some balancers, at equal money."""
    mine = [row for row in rows if row["model"] == model and row["balancer"] in balancers and not row["equalInstances"]]
    return max(mine, key=lambda row: float(row["rate"]), default=None)


def describe(data: Json) -> str:
    lines, rows = list[str](), data["rows"]
    for model in dict.fromkeys(row["model"] for row in rows):
        ours = best(rows, model, ["router"])
        assert ours is not None
        for name, rivals in (("blind", BLIND), ("haproxy-two", ("haproxy-two",))):
            rival = best(rows, model, rivals)
            if rival is not None:
                ratio = ours["rate"] / rival["rate"] if rival["rate"] else math.inf if ours["rate"] else 0.0
                lines.append(
                    f"- {model}: ours {ours['rate']:.1f} queries/s, {TITLES[rival['balancer']]} at {rival['counts']} "
                    f"{rival['rate']:.1f}: {ratio:.2f} times as many (goal {GOALS[name]:g}: "
                    f"{verdict(ratio >= GOALS[name])})\n"
                )
    head = ("model", "at equal", "balancer", "instances", "allowable [queries/s]", "simulator", "ours over it")
    body = [_cells(row, best(rows, row["model"], ["router"])) for row in rows]
    text = (
        f"Queries of the recorded mix over the wire to reference workers, {BUDGET} $/h; every rival at the counts at "
        "which it is best, or is said to be. Instances are (g4dn.xlarge, c5n.2xlarge, r5n.large, t3.xlarge). A rate is "
        "allowable if at most 1 % of the queries are late. All play at once, each the same queries; a rate is the "
        "highest that held, and one 3 % above failed (what is not compared: 15 %). The simulator's rate is that of "
        "`hetserve`, `threshold` or `fcfs` for the same queries. Times are "
        + ", ".join(f"{row['model']}'s x {row['scale']:g}" for row in rows if row["balancer"] == "router")
        + ".\n\n"
    )
    return text + "".join(lines) + "\n" + table(head, body) + "".join(f"\nNot measured: {e}\n" for e in data["missing"])


def _cells(row: Json, ours: Json | None) -> tuple[str, ...]:
    rate = row["rate"]
    times = "" if ours is None or ours is row else f"{ours['rate'] / rate:.2f}" if rate else "-"
    said = f"{rate:.1f}" if rate else f"none ({row['failed']:.1f} failed)"
    kind = "instances" if row["equalInstances"] else "money"
    return row["model"], kind, TITLES[row["balancer"]], row["counts"], said, f"{row['simulated']:.1f}", times
