"""Which placement policy serves pods that share GPUs on terms: refusals, pods placed, GPUs in use."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final

from benchmarks.hetsev.assumptions import Model, given
from benchmarks.placement.simulated.testbed import testbed
from benchmarks.reporting import Json, table
from benchmarks.sharing.rows import rows_of
from benchmarks.sharing.terms import NAMESPACE, drawn, millionths
from benchmarks.sharing.ways import DEFAULT, POLICIES

from hetserve.base.units import MiB, Seconds
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.planning.prices import largest_share
from hetserve.planning.tenancy import DEFAULT_MAX_SLOWDOWN
from hetserve.serving.services import MEASURED_AT

_FOUR: Final = "four services, HetSev's models"
TITLE: Final = "Placement policies where pods share on terms"
SERVICES: Final = 20
"""Each with its own model: two instances of one never share a GPU."""
FEW: Final = {_FOUR: 4}
"""Services of a mix that has other than `SERVICES`."""
SEEDS: Final = 10
ARRIVALS: Final = 1_500
LOADS: Final = (0.5, 0.9)
_FOREVER: Final = Seconds(float("inf"))

_WORDS: Final = """HetSev's testbed: 8 V100 of 32 GiB and 8 T4 of 16 GiB. {services} services per seed, {seeds}
seeds;
{arrivals} instances arrive by a Poisson process, live an exponential time and are refused if nothing fits at once.
*Load*: what is offered of memory or of GPUs' time, the scarcer, over what there is; of time an instance takes the
larger of u/s and h/(s-1). *Filled*: instances placed before the first refusal if nobody leaves. *In use*: GPUs with a
pod, on average. *Fewer*, *more*: seeds in which the policy refuses fewer, or more, instances than `{default}` at load
{load}. All policies meet the same arrivals.
"""


@dataclass(frozen=True, slots=True)
class Wish:
    """What each instance of a service asks of a GPU. terms: None: all of it."""

    mib: int
    terms: SharingTerms | None

    @property
    def time(self) -> float:
        """The largest share of a GPU's time."""
        if self.terms is None:
            return 1.0
        return float(largest_share(MiB(1 << 20), MiB(1), terms=self.terms))


Draw = Callable[[random.Random, str, Sequence[str]], Wish]
"""Of a service's name, and the others'."""


def _wish(rng: random.Random, others: Sequence[str], mib: int, taken: float) -> Wish:
    """taken: of a GPU's time, by its share at tolerances of 1.25 to 3; by what it adds at most as much."""
    tolerance = round(rng.uniform(1.25, 3.0), 3)
    share, added = min(taken * tolerance, 1.0), taken * (tolerance - 1) * rng.random()
    return Wish(mib, drawn(rng, others, round(share, 4), tolerance, added))


def _memory_heavy(rng: random.Random, _own: str, others: Sequence[str]) -> Wish:
    return _wish(rng, others, rng.randrange(5_000, 14_000), rng.uniform(0.05, 0.25))


def _time_heavy(rng: random.Random, _own: str, others: Sequence[str]) -> Wish:
    return _wish(rng, others, rng.randrange(500, 3_000), rng.uniform(0.3, 0.7))


def _either(rng: random.Random, own: str, others: Sequence[str]) -> Wish:
    return rng.choice((_memory_heavy, _time_heavy))(rng, own, others)


def _independent(rng: random.Random, _own: str, others: Sequence[str]) -> Wish:
    return _wish(rng, others, rng.randrange(500, 12_000), rng.uniform(0.05, 0.7))


def _some_whole(rng: random.Random, own: str, others: Sequence[str]) -> Wish:
    return Wish(0, None) if rng.random() < 1 / 10 else _time_heavy(rng, own, others)


def _of_four(_rng: random.Random, own: str, others: Sequence[str]) -> Wish:
    """HetSev's models by number, as planned at sigma."""
    models = list(given().models.values())
    model, numbers = models[int(own[1:])], [int(other[1:]) for other in others]
    added = {f"m{k}": _added(model, models[k]) for k in numbers}
    named = tuple(sorted((name, millionths(h)) for name, h in added.items()))
    most = max(h for _, h in named)
    return Wish(model.memory_mib, SharingTerms(millionths(model.share), DEFAULT_MAX_SLOWDOWN, most, named))


def _added(one: Model, other: Model) -> float:
    return given().coefficient(one.name, other.name) * math.sqrt(one.batch * other.batch) / MEASURED_AT


MIXES: Final[Mapping[str, Draw]] = {
    "memory is short": _memory_heavy,
    "time is short": _time_heavy,
    "now the one, now the other": _either,
    "independent": _independent,
    "time is short, one service in ten wants whole GPUs": _some_whole,
    _FOUR: _of_four,
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """Unit of time: the mean life of an instance."""

    at: float
    until: float
    request: GpuRequest


def measure(quick: bool) -> Json:
    rows = rows_of("policies", one_seed, range(2 if quick else SEEDS), keep=not quick)
    return {"seeds": len(rows), "mixes": {title: [row[title] for row in rows] for title in MIXES}}


def one_seed(seed: int) -> Json:
    """By mix and policy."""
    return {title: _one_mix(title, seed) for title in MIXES}


def _one_mix(title: str, seed: int) -> Json:
    rng = random.Random(seed)  # noqa: S311
    names = [f"m{k}" for k in range(FEW.get(title, SERVICES))]
    services = [MIXES[title](rng, own, [name for name in names if name != own]) for own in names]
    courses = {load: _arrivals(services, load, rng) for load in LOADS}
    return {policy: _one_policy(policy, courses) for policy in POLICIES}


def _one_policy(policy: PolicyName, courses: Mapping[float, Sequence[Arrival]]) -> Json:
    row: Json = {"filled": _filled(policy, courses[LOADS[-1]])}
    for load, course in courses.items():
        refused, in_use = _run(policy, course)
        row |= {f"refused {load}": refused, f"in use {load}": in_use}
    return row


def _arrivals(services: Sequence[Wish], load: float, rng: random.Random) -> list[Arrival]:
    """Instances of services drawn alike; their rate offers `load` of the scarcer resource."""
    gpus = [gpu for node in testbed() for gpu in node.gpus]
    whole = sum(gpu.memory_mib for gpu in gpus)
    memory = mean(one.mib or whole / len(gpus) for one in services) / whole
    rate, now, found = load / max(memory, mean(one.time for one in services) / len(gpus)), 0.0, []
    for number in range(ARRIVALS):
        now += rng.expovariate(rate)
        service = rng.randrange(len(services))
        request = _request(services[service], f"m{service}", number)
        found.append(Arrival(now, now + rng.expovariate(1.0), request))
    return found


def _request(wish: Wish, model: str, number: int) -> GpuRequest:
    shares = wish.terms is not None
    return GpuRequest(
        f"u{number}",
        NAMESPACE,
        f"p{number}",
        MiB(wish.mib),
        model,
        whole=not shares,
        compute=WHOLE_COMPUTE if shares else None,
        sharing=wish.terms,
    )


def _run(policy: PolicyName, course: Sequence[Arrival]) -> tuple[float, float]:
    """(Share of instances refused, GPUs in use as they arrive), after the first fifth."""
    ledger, leaving, skipped = _empty(testbed()), list[tuple[float, str]](), len(course) // 5
    refused, in_use = 0, 0
    for number, arrival in enumerate(course):
        while leaving and leaving[0][0] <= arrival.at:
            ledger.release(heapq.heappop(leaving)[1])
        placed = _place(ledger, arrival.request, policy)
        if placed:
            heapq.heappush(leaving, (arrival.until, arrival.request.uid))
        if number >= skipped:
            refused += not placed
            in_use += int((~ledger.index.idle).sum())
    counted = len(course) - skipped
    return refused / counted, in_use / counted


def _filled(policy: PolicyName, course: Sequence[Arrival]) -> int:
    ledger = _empty(testbed())
    return next((number for number, one in enumerate(course) if not _place(ledger, one.request, policy)), len(course))


def _empty(nodes: Sequence[NodeInventory]) -> Ledger:
    ledger = Ledger()
    ledger.relist_nodes(nodes)
    return ledger


def _place(ledger: Ledger, request: GpuRequest, policy: PolicyName) -> bool:
    chosen = decide(ledger.index, request, sorted(ledger.inventories()), policy=policy).chosen
    if chosen is not None:
        ledger.reserve(request, chosen.places, _FOREVER)
    return chosen is not None


def describe(data: Json) -> str:
    words = _WORDS.format(services=SERVICES, seeds=data["seeds"], arrivals=ARRIVALS, default=DEFAULT, load=LOADS[-1])
    head = ("policy", "filled", *(f"refused, load {load}" for load in LOADS), f"in use, load {LOADS[0]}")
    parts = [words]
    for title, seeds in data["mixes"].items():
        rows = [_row(policy, seeds, DEFAULT) for policy in POLICIES]
        parts.append(f"*{title[0].upper()}{title[1:]}:*\n\n" + table((*head, "fewer", "more"), rows))
    return "\n".join(parts)


def _row(policy: str, seeds: Sequence[Json], default: str) -> tuple[str, ...]:
    def over(key: str) -> float:
        return float(mean(seed[policy][key] for seed in seeds))

    key = f"refused {LOADS[-1]}"
    fewer, more = (sum(sign * seed[policy][key] < sign * seed[default][key] for seed in seeds) for sign in (1, -1))
    refused = [f"{over(f'refused {load}'):.1%}" for load in LOADS]
    return f"`{policy}`", f"{over('filled'):.1f}", *refused, f"{over(f'in use {LOADS[0]}'):.1f}", str(fewer), str(more)
