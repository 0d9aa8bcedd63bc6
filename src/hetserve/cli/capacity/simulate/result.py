"""The answer of `hetserve simulate`; keys are part of the interface."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from hetserve.base.units import format_money
from hetserve.cli.capacity import tenancy
from hetserve.cli.capacity.effort import Effort
from hetserve.cli.capacity.serving import Held
from hetserve.cli.output.terminal import Block, text_of
from hetserve.dispatch import Policy
from hetserve.planning import Problem, summary
from hetserve.planning.formatting import latency_text, money_text, qps_text
from hetserve.simulation.report import RunReport
from hetserve.simulation.stability import Backlog, grows, growth_text


@dataclass(frozen=True, slots=True)
class Simulated:
    """Simulation of one service.

    reports: by seed; empty without an allowable rate. ceiling: most queries/s, however late. found: None if a rate was
    given.
    """

    service: str
    model: str
    problem: Problem
    counts: Mapping[str, int]
    policy: Policy
    effort: Effort
    reports: tuple[RunReport, ...]
    ceiling: float
    found: Held | None = None

    @property
    def rate(self) -> float:
        return self.reports[0].rate if self.reports else 0.0

    @property
    def violation_ratio(self) -> float | None:
        """Share of late queries over all seeds; None: nothing ran."""
        queries = sum(report.queries for report in self.reports)
        return sum(report.violations for report in self.reports) / queries if queries else None

    @property
    def holds(self) -> bool:
        if self.found is not None:
            return self.found.allowable.rate > 0
        ratio = self.violation_ratio
        if self.unstable:
            return False
        return ratio is not None and ratio <= 1 - self.problem.slo.percentile / 100 + 1e-12

    @property
    def backlogs(self) -> list[Backlog]:
        return [report.backlog for report in self.reports if report.backlog is not None]

    @property
    def unstable(self) -> bool:
        """Whether the backlog grows without end at the given load."""
        return self.found is None and (self.rate >= self.ceiling or grows(self.backlogs))

    @property
    def cost(self) -> int:
        return sum(option.price * self.counts[option.name] for option in self.problem.types)

    @property
    def worst_delay(self) -> float | None:
        worst = [r.worst_delay for r in self.reports if math.isfinite(r.worst_delay)]
        return max(worst) if worst else None

    def utilisation(self) -> dict[str, float]:
        names = [option.name for option in self.problem.types]
        by_type = {
            name: [use.utilisation for r in self.reports for use in r.types if use.name == name] for name in names
        }
        return {name: sum(shares) / len(shares) for name, shares in by_type.items() if shares}

    def deciles(self) -> list[tuple[int, int, int, int]]:
        """(smallest batch, largest batch, queries, violations) per tenth of the queries, over all seeds.

        Of different limits the widest.
        """
        found: dict[int, tuple[int, int, int, int]] = {}
        for report in self.reports:
            for number, one in enumerate(report.deciles):
                low, high, queries, late = found.get(number, (one.smallest, one.largest, 0, 0))
                low, high = min(low, one.smallest), max(high, one.largest)
                found[number] = (low, high, queries + one.queries, late + one.violations)
        return list(found.values())


def document(result: Simulated) -> dict[str, Any]:
    slo, found = result.problem.slo, result.found
    rate: dict[str, Any] = {"offeredQPS": result.rate}
    if found is not None:
        rate = {
            "allowableQPS": found.allowable.rate,
            "criterion": found.allowable.criterion,
            "perSeedQPS": list(found.allowable.per_seed),
            "fluidBoundQPS": found.fluid,
            "unstableFromQPS": found.allowable.unstable_from,
            "trials": len(found.allowable.trials),
        }
    return {
        "service": result.service,
        "model": result.model,
        "policy": result.policy.name,
        "parameters": list(result.policy.parameters),
        "counts": dict(result.counts),
        "cost": format_money(result.cost),
        **rate,
        "sloSeconds": slo.latency,
        "percentile": slo.percentile,
        "ceilingQPS": result.ceiling,
        "holds": result.holds,
        "unstable": result.unstable,
        "violationRatio": result.violation_ratio,
        "worstDelaySeconds": result.worst_delay,
        "queries": result.effort.queries,
        "warmUp": result.effort.warm_up,
        "arrivals": result.effort.arrivals_name,
        "seed": result.effort.seeds[0],
        "seeds": list(result.effort.seeds),
        **tenancy.document(result.problem),
        "utilisation": result.utilisation(),
        "violationsByBatch": [
            {"smallestBatch": low, "largestBatch": high, "queries": queries, "violationRatio": late / queries}
            for low, high, queries, late in result.deciles()
        ],
        "runs": [report.as_json() for report in result.reports],
    }


def table(results: Sequence[Simulated]) -> str:
    return text_of([_block(result) for result in results])


def _block(result: Simulated) -> Block:
    slo = result.problem.slo
    title = f"{result.service}: {summary(tuple(result.counts.items()))} under {result.policy.name}"
    lines = [
        ("asked", f"{slo.percentile:.10g} % within {latency_text(slo.latency)}, {money_text(result.cost)}"),
        *tenancy.lines(result.problem),
        ("answer", _answer(result)),
        ("late", _late(result)),
        ("simulated", result.effort.text),
    ]
    return Block(title, tuple(lines), (_types(result), _deciles(result)) if result.reports else ())


def _answer(result: Simulated) -> str:
    if result.found is None:
        word = "holds" if result.holds else "does not hold"
        return f"the SLO {word} at {qps_text(result.rate)}" + (_growth(result) if result.unstable else "")
    found = result.found
    if not result.holds:
        return "the SLO holds at no rate that was tried"
    share = (
        f", {found.allowable.rate / found.fluid:.1%} of the fluid bound {qps_text(found.fluid)}" if found.fluid else ""
    )
    from_here = found.allowable.unstable_from
    above = "" if from_here is None else f"; unstable from {qps_text(from_here)} on: the backlog grows"
    return f"holds up to {qps_text(found.allowable.rate)}{share} ({found.allowable.criterion} criterion){above}"


def _growth(result: Simulated) -> str:
    text = f": unstable: the backlog grows, {growth_text(result.backlogs)}"
    if result.rate >= result.ceiling:
        text += f"; in the long run the instances serve less than {qps_text(result.ceiling)}"
    return text


def _late(result: Simulated) -> str:
    if result.violation_ratio is None or result.worst_delay is None:
        return "nothing was run"
    worst = (
        f"worst {latency_text(result.worst_delay)}, {_times(result.worst_delay / result.problem.slo.latency)} the SLO"
    )
    return f"{result.violation_ratio:.2%} of queries at {qps_text(result.rate)}; {worst}"


def _times(ratio: float) -> str:
    return f"{ratio:,.0f} x" if ratio >= 100 else f"{ratio:.3g} x"


def _types(result: Simulated) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    grid.add_column("TYPE")
    for column in ("COUNT", "$/H", "QUERIES", "BUSY %"):
        grid.add_column(column, justify="right")
    busy = result.utilisation()
    for option in result.problem.types:
        count = result.counts[option.name]
        served = sum(use.queries for r in result.reports for use in r.types if use.name == option.name)
        share = f"{busy[option.name]:.1%}".rstrip("%") if count else "-"
        grid.add_row(option.name, str(count), format_money(option.price * count), str(served), share)
    return grid


def _deciles(result: Simulated) -> Table:
    grid = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for column in ("BATCH (ITEMS)", "QUERIES", "LATE", "LATE %"):
        grid.add_column(column, justify="right")
    for low, high, queries, late in result.deciles():
        grid.add_row(
            str(low) if low == high else f"{low}-{high}", str(queries), str(late), f"{100 * late / queries:.2f}"
        )
    return grid
