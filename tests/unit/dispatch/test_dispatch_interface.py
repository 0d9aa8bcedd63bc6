from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hetserve.dispatch import LatencyModel, make_policy
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from testing.deciding import Worker, decide
from testing.dispatching import BATCHES, latency_model, snapshot


def test_an_unknown_policy_is_refused_with_those_that_exist() -> None:
    with pytest.raises(ValueError, match=r"unknown dispatch policy 'best'; there are: hetserve, .*kairos"):
        make_policy("best")


def test_an_unknown_setting_is_refused_with_those_that_exist() -> None:
    with pytest.raises(TypeError, match="dispatch policy kairos has no setting size; there are: xi, penalty, window"):
        make_policy("kairos", size=1)
    with pytest.raises(TypeError, match="dispatch policy fcfs has no setting xi; it has none"):
        make_policy("fcfs", xi=0.5)


@pytest.mark.parametrize("name", DISPATCH_POLICIES.names)
def test_every_policy_has_its_name(name: str) -> None:
    assert make_policy(name).name == name


def test_the_names_of_policies_are_known_without_loading_the_compiler() -> None:
    code = (
        "import sys, hetserve.dispatch, hetserve.simulation\n"
        "late = {'numba', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "assert not late, late"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


COMPILED = """
from numba.core.registry import CPUDispatcher

from hetserve.dispatch import hetserve, hetserve_plan, make_policy
from testing.deciding import Worker
from testing.deciding import decide
from testing.dispatching import snapshot

decide(make_policy("hetserve"), snapshot([(0.0, 10), (0.5, 1)], [Worker(1), Worker(0)], now=1.0))
kernels = {
    value
    for module in (hetserve, hetserve_plan)
    for value in vars(module).values()
    if isinstance(value, CPUDispatcher)
}
assert len(kernels) > 15
twice = {kernel.py_func.__name__: kernel.signatures for kernel in kernels if len(kernel.signatures) > 1}
assert not twice, twice
"""


@pytest.mark.deep
def test_no_kernel_of_the_pull_dispatcher_is_compiled_twice(tmp_path: Path) -> None:
    """A constant written where a kernel is called has all below compiled once more for its value.

    In a process and a cache of its own: the loops compile kernels for their own kinds of arrays.
    """
    own = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", COMPILED], check=True, env=own)


def test_fcfs_sends_the_head_of_the_queue_to_the_idle_instance_of_highest_coefficient() -> None:
    scene = snapshot([(0.0, 10), (0.5, 1)], [Worker(1), Worker(0, busy=True), Worker(0)], now=1.0)
    assert [(d.query, d.worker) for d in decide(make_policy("fcfs"), scene).dispatches] == [(100, 2)]


def test_fcfs_holds_the_queue_for_a_head_that_no_idle_instance_can_serve() -> None:
    model = latency_model((0.2, 0.25, 0.4, 0.6), (0.25, 0.45, 0.9, math.inf))
    scene = snapshot([(0.0, 10), (0.0, 1)], [Worker(0, busy=True), Worker(1)], model)
    assert decide(make_policy("fcfs"), scene).dispatches == ()


class TestLatencyModel:
    def test_coefficients_are_ratios_to_the_base_at_the_largest_batch(self) -> None:
        # Kairos section 5.1: 100, 200 and 500 ms give 1, 0.5 and 0.2.
        model = latency_model((0.05, 0.06, 0.07, 0.1), (0.01, 0.1, 0.15, 0.2), (0.1, 0.2, 0.3, 0.5))
        assert model.base == 0
        assert model.arrays.coefficients.tolist() == pytest.approx([1.0, 0.5, 0.2])

    def test_a_type_that_stops_earlier_is_compared_at_its_own_largest_batch(self) -> None:
        model = latency_model((0.05, 0.06, 0.07, 0.1), (0.1, 0.12, math.inf, math.inf))
        assert model.arrays.coefficients.tolist() == pytest.approx([1.0, 0.5])

    def test_sizes_in_time_are_counted_beyond_one_that_is_not(self) -> None:
        model = latency_model((0.1, 0.2, 0.3, 0.4), (0.1, 1.2, 0.9, 0.8), (2.0, 2.0, 2.0, 2.0))
        assert model.arrays.in_time.tolist() == [4, 3, 0]

    @pytest.mark.parametrize(("batch", "size"), [(1, 0), (2, 1), (3, 2), (5, 2), (6, 3), (10, 3)])
    def test_a_batch_between_two_known_ones_counts_as_the_larger(self, batch: int, size: int) -> None:
        assert latency_model().size_of(batch) == size

    @pytest.mark.parametrize("batch", [0, -1, 11])
    def test_a_batch_beyond_the_known_ones_is_refused(self, batch: int) -> None:
        with pytest.raises(ValueError, match=f"batch {batch}: must be between 1 and 10"):
            latency_model().size_of(batch)

    def test_arrays_cannot_be_written(self) -> None:
        with pytest.raises(ValueError, match="read-only"):
            latency_model().arrays.mean[0, 0] = 1.0

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (0.0, "mean latency of b at batch 2 is 0.0: must be positive"),
            (-1.0, "mean latency of b at batch 2 is -1.0: must be positive"),
            (math.nan, "mean latency of b at batch 2 is nan: must be positive"),
        ],
    )
    def test_a_latency_that_is_not_positive_is_named(self, value: float, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            latency_model((0.1, 0.2, 0.3, 0.4), (0.1, value, 0.3, 0.4))

    @pytest.mark.parametrize("slo", [0.0, -1.0, math.nan, math.inf])
    def test_an_slo_that_is_no_positive_number_is_refused(self, slo: float) -> None:
        with pytest.raises(ValueError, match="must be a positive number of seconds"):
            LatencyModel.of(("a",), BATCHES, np.ones((1, 4)), slo)
