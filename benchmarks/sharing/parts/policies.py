"""Which placement policy serves pods that book memory and compute: refusals, pods placed, GPUs in use."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import Final

from benchmarks.placement.simulated.testbed import testbed
from benchmarks.reporting import Json, table

from hetserve.base.units import MiB, Percent, Seconds
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, default_placement_policy

TITLE: Final = "Placement policies where memory and compute are booked"
POLICIES: Final = tuple(map(PolicyName, PLACEMENT_POLICIES.names))
SERVICES: Final = 20
"""Each with its own model: two instances of one never share a GPU."""
ARRIVALS: Final = 1_500
LOADS: Final = (0.5, 0.9)
_FOREVER: Final = Seconds(float("inf"))

_WORDS: Final = """HetSev's testbed: 8 V100 of 32 GiB and 8 T4 of 16 GiB. {services} services per seed, {seeds} seeds;
{arrivals} instances arrive by a Poisson process, live an exponential time and are refused if nothing fits at once.
*Load*: what is offered of the scarcer resource over what there is. *Filled*: instances placed before the first refusal
if nobody leaves. *In use*: GPUs with a pod, on average. *Fewer*, *more*: seeds in which the policy refuses fewer, or
more, instances than `{default}` at load {load}. All policies meet the same arrivals.
"""
Draw = Callable[[random.Random], tuple[int, int]]
"""MiB and percent of compute of a service's instances."""


def _memory_heavy(rng: random.Random) -> tuple[int, int]:
    return rng.randrange(5_000, 14_000), 5 * rng.randint(1, 5)


def _compute_heavy(rng: random.Random) -> tuple[int, int]:
    return rng.randrange(500, 3_000), 5 * rng.randint(6, 14)


def _either(rng: random.Random) -> tuple[int, int]:
    return rng.choice((_memory_heavy, _compute_heavy))(rng)


def _independent(rng: random.Random) -> tuple[int, int]:
    return rng.randrange(500, 12_000), 5 * rng.randint(1, 14)


def _alike(rng: random.Random) -> tuple[int, int]:
    percent = rng.randint(1, 12)
    return 900 * percent + rng.randrange(500), 5 * percent


MIXES: Final[Mapping[str, Draw]] = {
    "memory is short": _memory_heavy,
    "compute is short": _compute_heavy,
    "now the one, now the other": _either,
    "independent": _independent,
    "large in one, large in both": _alike,
}


@dataclass(frozen=True, slots=True)
class Arrival:
    """Unit of time: the mean life of an instance."""

    at: float
    until: float
    request: GpuRequest


def measure(quick: bool) -> Json:
    seeds = 2 if quick else 30
    mixes = {title: [_one_seed(draw, seed) for seed in range(seeds)] for title, draw in MIXES.items()}
    return {"seeds": seeds, "mixes": mixes}


def _one_seed(draw: Draw, seed: int) -> Json:
    rng = random.Random(seed)  # noqa: S311
    services = [draw(rng) for _ in range(SERVICES)]
    courses = {load: _arrivals(services, load, rng) for load in LOADS}
    return {policy: _one_policy(policy, courses) for policy in POLICIES}


def _one_policy(policy: PolicyName, courses: Mapping[float, Sequence[Arrival]]) -> Json:
    row: Json = {"filled": _filled(policy, courses[LOADS[-1]])}
    for load, course in courses.items():
        refused, in_use = _run(policy, course)
        row |= {f"refused {load}": refused, f"in use {load}": in_use}
    return row


def _arrivals(services: Sequence[tuple[int, int]], load: float, rng: random.Random) -> list[Arrival]:
    """Instances of services drawn alike; their rate offers `load` of the scarcer resource."""
    gpus = [gpu for node in testbed() for gpu in node.gpus]
    memory = mean(mib for mib, _ in services) / sum(gpu.memory_mib for gpu in gpus)
    compute = mean(percent for _, percent in services) / (100 * len(gpus))
    rate, now, found = load / max(memory, compute), 0.0, []
    for number in range(ARRIVALS):
        now += rng.expovariate(rate)
        service = rng.randrange(len(services))
        mib, percent = services[service]
        request = GpuRequest(f"u{number}", "d", f"p{number}", MiB(mib), f"m{service}", compute=Percent(percent))
        found.append(Arrival(now, now + rng.expovariate(1.0), request))
    return found


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
    default = default_placement_policy()
    words = _WORDS.format(services=SERVICES, seeds=data["seeds"], arrivals=ARRIVALS, default=default, load=LOADS[-1])
    head = ("policy", "filled", *(f"refused, load {load}" for load in LOADS), f"in use, load {LOADS[0]}")
    parts = [words]
    for title, seeds in data["mixes"].items():
        rows = [_row(policy, seeds, default) for policy in POLICIES]
        parts.append(f"*{title.capitalize()}:*\n\n" + table((*head, "fewer", "more"), rows))
    return "\n".join(parts)


def _row(policy: str, seeds: Sequence[Json], default: str) -> tuple[str, ...]:
    def over(key: str) -> float:
        return float(mean(seed[policy][key] for seed in seeds))

    key = f"refused {LOADS[-1]}"
    fewer, more = (sum(sign * seed[policy][key] < sign * seed[default][key] for seed in seeds) for sign in (1, -1))
    refused = [f"{over(f'refused {load}'):.1%}" for load in LOADS]
    return f"`{policy}`", f"{over('filled'):.1f}", *refused, f"{over(f'in use {LOADS[0]}'):.1f}", str(fewer), str(more)
