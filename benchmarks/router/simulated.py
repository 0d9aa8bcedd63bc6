"""The same queries in virtual time: what the simulator says of a setup."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache

from benchmarks.kairos.evaluation.measure import Scale, allowable, bound_of
from benchmarks.kairos.paper.setting import Case
from benchmarks.router.player import PlayedQuery, planned
from benchmarks.router.setups import SEED, Setup, shares

from hetserve.dispatch import make_policy
from hetserve.planning import Counts
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import Workload, draw_workload


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """late: share of the queries. by_type: share that each type served."""

    late: float
    by_type: dict[str, float]


def recorded(setup: Setup, queries: int) -> Workload:
    """The same for every balancer of a model: arrivals, sizes, and how long each query takes on each type."""
    return draw_workload(setup.model.mix, queries, SEED)


def on_the_wire(setup: Setup, queries: int, rate: float) -> list[PlayedQuery]:
    """The recorded queries at a rate [queries/s]."""
    work = recorded(setup, queries)
    return planned(work.times(rate).tolist(), [work.batches[size] for size in work.sizes])


def simulated(setup: Setup, queries: int, rate: float) -> SimulatedRun:
    """What becomes of them in the simulator."""
    system, counts = setup.model.system, dict(setup.counts)
    work = recorded(setup, queries)
    outcome = run_alone(system, counts, make_policy(setup.policy), work, rate).outcome()
    kinds = [setup.instances[instance].type for instance in outcome.instance.tolist() if instance >= 0]
    return SimulatedRun(float(outcome.late.mean()), shares(Counter(kinds)))


def allowable_rate(setup: Setup, queries: int, policy: str = "", size: int | None = None) -> float:
    """The simulator's allowable rate of a setup, or of another policy on its instances [queries/s].

    size: index of the largest batch for auxiliary types, of `threshold`.
    """
    name = policy or setup.policy
    return _allowable(setup.model.case, setup.counts, name, queries, size) / setup.model.scale


@cache
def _allowable(case: Case, counts: Counts, policy: str, queries: int, size: int | None) -> float:
    made = make_policy(policy) if size is None else make_policy(policy, size=size)
    return allowable(case, counts, made, bound_of(case, counts), Scale(queries=queries, seeds=(SEED,))).mean
