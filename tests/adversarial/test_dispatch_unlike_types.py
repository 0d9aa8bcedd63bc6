"""Pools of types that differ more than Kairos's: what slow and noisy instances must not take from the fast ones."""

from __future__ import annotations

import pytest

from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.dispatch.lp import fluid_bound
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import draw_workload
from testing.dispatching import table

SIZES = (1, 10, 85, 189)
MIX = BatchMix.of(zip(SIZES, (0.72, 0.2, 0.06, 0.02), strict=True))
FAST = (0.02, 0.06, 0.38, 0.84)


def late_share(system: System, counts: dict[str, int], load: float, policy: str = "hetserve") -> float:
    """load: share of the fluid bound."""
    rate = load * fluid_bound(system.predicted, [counts[name] for name in system.types], MIX)
    work = draw_workload(MIX, 12_000, seed=5)
    return float(run_alone(system, counts, make_policy(policy), work, rate).outcome().late.mean())


@pytest.mark.parametrize("slow", [1, 30])
def test_slow_noisy_instances_take_no_light_load_from_fast_ones(slow: int) -> None:
    """A slow one serves small batches in time with 98 %: too seldom where the fast ones are idle."""
    system = System.of(
        {"a": table((0.86, 0.9, 2.0, 4.0), SIZES, 0.07), "z": table((0.2, 0.22, 0.4, 0.5), SIZES, 0.07)}, SIZES, 1.0
    )
    assert late_share(system, {"a": 0, "z": 6}, 0.5) <= 0.001
    shared = fluid_bound(system.predicted, [slow, 6], MIX) / fluid_bound(system.predicted, [0, 6], MIX)
    assert late_share(system, {"a": slow, "z": 6}, 0.5 / shared) <= 0.001


def test_fast_instances_keep_what_is_slow_elsewhere_under_a_heavy_load() -> None:
    """Small batches take 5 times as long on the slow type, large ones twice: if it serves the small ones, all wait."""
    system = System.of({"a": table((0.1, 0.17, 0.76, 1.7), SIZES, 0.05), "z": table(FAST, SIZES, 0.05)}, SIZES, 1.0)
    ours, kairos = (late_share(system, {"a": 4, "z": 3}, 0.88, policy) for policy in ("hetserve", "kairos"))
    assert ours <= min(kairos, 0.01)
