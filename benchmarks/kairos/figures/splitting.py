"""Instances split at random into k groups with a queue each (POP): throughput lost, time of a decision saved."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Final

import numpy as np
from benchmarks.bench_dispatch import a_call, a_scene, microseconds
from benchmarks.kairos.evaluation.measure import Scale, in_parallel
from benchmarks.kairos.paper.setting import Case, system
from benchmarks.reporting import Json, table
from numpy.typing import NDArray

from hetserve.demand import BatchMix
from hetserve.dispatch import Policy, make_policy
from hetserve.dispatch.lp import fluid_bound
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import Workload, draw_workload

TITLE: Final = "One queue or several (POP)"

GROUPS: Final = (1, 2, 4, 8)
_POLICIES: Final = {"kairos": "Kairos", "hetserve": "hetserve"}
_SIZES: Final = (16, 32)
_MORE: Final = (64, 128)
"""Instances of the runs, and of those in full; more take hours under the matching."""
_SERVED_BY: Final = (16, 32, 64, 128, 256, 512)
_ROUNDS: Final = 20
_STEP: Final = 0.01
_QUERIES: Final = 1000
"""For each instance, so that runs of all sizes last as long."""
_PER_QUERY: Final = 2
"""Calls of a policy for each query: it comes, and it ends."""


def used(scale: Scale) -> Scale:
    """Runs of one seed, of so many queries for each instance."""
    return replace(scale, queries=_QUERIES, seeds=scale.seeds[:1])


def measure(scale: Scale) -> Json:
    case = Case("RM2")
    pool = system(case)
    decisions = {name: {str(n): microseconds(_calls(name, n))[0] for n in (2, 4, 8, *_SERVED_BY)} for name in _POLICIES}
    sizes = (*_SIZES, *_MORE) if scale.full else _SIZES
    jobs = list(product(_POLICIES, sizes, GROUPS))

    def rate(job: tuple[str, int, int]) -> float:
        name, n, k = job
        work = draw_workload(case.mix, n * _QUERIES, scale.seeds[0])
        top = fluid_bound(pool.predicted, list(counts_of(n).values()), case.mix)
        return split_rate(pool, dealt(counts_of(n), k, 11), make_policy(name), work, top)

    rates = dict(zip(jobs, in_parallel(rate, jobs, scale), strict=True))
    return {
        "decisions": decisions,
        "rates": {name: {str(n): {str(k): rates[name, n, k] for k in GROUPS} for n in sizes} for name in _POLICIES},
    }


def counts_of(instances: int) -> dict[str, int]:
    """An eighth of them of the base, the others of the best auxiliary, about Kairos's pick for RM2."""
    return {"g4dn.xlarge": instances // 8, "c5n.2xlarge": 0, "r5n.large": instances - instances // 8, "t3.xlarge": 0}


def dealt(counts: Mapping[str, int], groups: int, seed: int) -> list[dict[str, int]]:
    """Counts of groups whose numbers of instances differ by one at most, drawn at random."""
    names = np.repeat(list(counts), list(counts.values()))
    parts = np.array_split(np.random.default_rng(seed).permutation(names), groups)
    return [{name: int((part == name).sum()) for name in counts} for part in parts]


def split_rate(pool: System, groups: Sequence[Mapping[str, int]], policy: Policy, work: Workload, top: float) -> float:
    """Allowable rate [queries/s], scanned down from `top`: each query goes to a group at random, and stays there.

    A group gets its share of what the groups can serve within the SLO (the fluid bound); 0: no group can serve all.
    """
    mix_shares = np.bincount(work.sizes, minlength=len(work.batches)) / len(work)
    able = np.array([_bound(pool, group, mix_shares) for group in groups])
    if not able.any():
        return 0.0
    drawn = np.random.default_rng(work.seed).choice(len(groups), len(work), p=able / able.sum())
    allowed = len(work) // 100
    parts = [(group, _part(work, drawn == k)) for k, group in enumerate(groups) if able[k] > 0]
    for rate in (top * (1 - _STEP * k) for k in range(int(1 / _STEP))):
        late = 0
        for group, part in parts:
            run = run_alone(pool, group, policy, part, rate, stop_after=allowed - late)
            late += int(run.outcome().late.sum())
            if late > allowed:
                break
        if late <= allowed:
            return rate
    return 0.0


def _bound(pool: System, group: Mapping[str, int], shares: NDArray[np.float64]) -> float:
    seen = [(int(batch), float(share)) for batch, share in zip(pool.served.batches, shares, strict=True)]
    mix = BatchMix.of(seen)
    return fluid_bound(pool.predicted, [group[name] for name in pool.types], mix)


def _part(work: Workload, mine: NDArray[np.bool_]) -> Workload:
    """Some of the queries, at the same times."""
    gaps = np.diff(np.cumsum(work.gaps)[mine], prepend=0.0)
    return Workload(work.arrivals, work.batches, work.sizes[mine], gaps, work.service_draws[mine], work.seed)


def _calls(name: str, instances: int) -> list[Callable[[], object]]:
    policy = make_policy(name)
    return [a_call(policy, a_scene(2 * instances, instances, seed)) for seed in range(_ROUNDS)]


def most_instances(decisions: Mapping[str, float], per_instance: float) -> int:
    """Most of the measured numbers of instances whose decisions one core makes in time.

    decisions: {instances: microseconds}. per_instance: queries/s.
    """
    kept = [int(n) for n, us in decisions.items() if int(n) * per_instance * _PER_QUERY * us < 1e6]
    return max(kept, default=0)


def describe(data: Json) -> str:
    decisions, rates = data["decisions"], data["rates"]
    served = [
        [f"{n} instances", *(f"{decisions[name][str(n)]:.1f}" for name in _POLICIES)] for n in (2, 4, 8, *_SERVED_BY)
    ]
    lost = [
        [_POLICIES[name], n, f"{row['1']:.0f}", *(_loss(row[str(k)], row["1"]) for k in GROUPS[1:])]
        for name, table_ in rates.items()
        for n, row in table_.items()
    ]
    loads = {"RM2 (9 queries/s an instance)": 9.0, "NCF (450)": 450.0}
    ends = [[label, *(most_instances(decisions[name], each) for name in _POLICIES)] for label, each in loads.items()]
    return (
        "Time of one decision [us], 2 n queries waiting and half of the instances idle; with k queues it is that of "
        "n / k instances:\n\n"
        + table(["one queue for", *_POLICIES.values()], served)
        + "\nThroughput lost (RM2, one base instance in eight, 1,000 queries for each instance, one seed, to 1 % and "
        "at most the fluid bound); queries go to groups at random, in proportion to what the groups can serve:\n\n"
        + table(["policy", "instances", "one queue, q/s", *(f"k = {k}" for k in GROUPS[1:])], lost)
        + "\nMost of these instances whose decisions, two a query, one core makes in time with one queue:\n\n"
        + table(["model", *_POLICIES.values()], ends)
        + "\nWhat follows is in [When one queue is not enough](../when-one-queue-is-not-enough.md).\n"
    )


def _loss(rate: float, whole: float) -> str:
    return f"{1 - rate / whole:.0%}"
