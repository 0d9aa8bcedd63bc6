"""Instances split into groups with a queue each."""

from __future__ import annotations

import numpy as np
from benchmarks.kairos.figures.splitting import counts_of, dealt, most_instances, split_rate

from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.profiles import TableProfile
from hetserve.serving.system import System
from hetserve.simulation.workload import draw_workload

MIX = BatchMix.of([(1, 1.0), (2, 1.0)])
SLO = 5.0
ALIKE = System.of({"a": TableProfile((1, 2), (1.0, 1.0))}, MIX.batches, SLO)  # type: ignore[arg-type]


def test_groups_hold_all_instances_and_differ_by_one_at_most() -> None:
    groups = dealt(counts_of(32), 5, seed=1)
    assert {name: sum(group[name] for group in groups) for name in counts_of(32)} == counts_of(32)
    sizes = [sum(group.values()) for group in groups]
    assert max(sizes) - min(sizes) <= 1


def test_one_group_is_one_queue_and_more_serve_less() -> None:
    work, policy = draw_workload(MIX, 2000, 1), make_policy("fcfs")
    whole, parts = (split_rate(ALIKE, dealt({"a": 8}, k, 1), policy, work, 8.0) for k in (1, 8))
    assert 0 < parts < 0.95 * whole


def test_a_group_that_cannot_serve_every_batch_in_time_gets_no_query() -> None:
    profiles = {"a": TableProfile((1, 2), (1.0, 1.0)), "b": TableProfile((1, 2), (1.0, 9.0))}  # type: ignore[arg-type]
    system, work = System.of(profiles, MIX.batches, SLO), draw_workload(MIX, 1000, 1)
    both = [{"a": 4, "b": 0}, {"a": 0, "b": 4}]
    policy = make_policy("fcfs")
    assert split_rate(system, both, policy, work, 4.0) == split_rate(system, both[:1], policy, work, 4.0) > 0


def test_one_core_carries_what_it_decides_in_time() -> None:
    # 10 queries/s, two calls each: 20 calls/s an instance.
    assert most_instances({"16": 10.0, "32": 100.0, "512": 100.0}, 10.0) == 32
    assert np.isclose(most_instances({"16": 10_000.0}, 10.0), 0)
