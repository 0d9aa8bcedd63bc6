"""Stages of KWOK: launch times of instance types become delays of their pods."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.kube import Manifest
from harness.stages import default_stages, drain_name, launch_name, launch_stages
from hetserve.api.names import LABEL_INSTANCE_TYPE
from testing import builders


def instance_type(name: str, launch: str = "30s") -> Manifest:
    return builders.instance_type(name, {"spec.launchTime": launch})


def by_name(stages: list[Manifest]) -> dict[str, Manifest]:
    return {stage["metadata"]["name"]: stage for stage in stages}


DEFAULTS = by_name(default_stages())


def test_the_default_stages_play_nodes_and_pods_at_once() -> None:
    assert set(DEFAULTS) == {
        "node-initialize",
        "node-heartbeat-with-lease",
        "pod-ready",
        "pod-complete",
        "pod-delete",
    }
    assert [name for name, stage in DEFAULTS.items() if "delay" in stage["spec"]] == ["node-heartbeat-with-lease"]
    assert not any("weight" in stage["spec"] for stage in DEFAULTS.values())


def test_each_type_gets_a_stage_of_its_own_that_wins_over_the_default() -> None:
    stages = by_name(launch_stages([instance_type("a", "30s"), instance_type("b", "90s")]))
    assert set(stages) == {launch_name("a"), launch_name("b")}
    for name, milliseconds in (("a", 30_000), ("b", 90_000)):
        spec = stages[launch_name(name)]["spec"]
        assert spec["selector"]["matchLabels"] == {LABEL_INSTANCE_TYPE: name}
        assert spec["delay"] == {"durationMilliseconds": milliseconds}
        assert spec["weight"] == 1, "the default has none"
        default = DEFAULTS["pod-ready"]["spec"]
        assert spec["next"] == default["next"]
        assert spec["selector"]["matchExpressions"] == default["selector"]["matchExpressions"]


@given(seconds=st.integers(0, 3600), scale=st.floats(0, 10), jitter=st.floats(0.01, 2))
def test_pods_launch_between_the_scaled_time_and_that_with_jitter(seconds: int, scale: float, jitter: float) -> None:
    (stage,) = launch_stages([instance_type("a", f"{seconds}s")], scale=scale, jitter=jitter)
    delay = stage["spec"]["delay"]
    assert delay["durationMilliseconds"] == pytest.approx(1e3 * seconds * scale, abs=0.5)
    assert delay["jitterDurationMilliseconds"] == pytest.approx(1e3 * seconds * scale * (1 + jitter), abs=0.5)
    assert delay["jitterDurationMilliseconds"] >= delay["durationMilliseconds"], "KWOK would take the smaller one"


def test_a_drained_type_keeps_deleted_pods_through_their_grace() -> None:
    stages = by_name(launch_stages([instance_type("a")], drain=True))
    spec = stages[drain_name("a")]["spec"]
    assert spec["delay"] == {"durationFrom": {"jq": {"expression": ".metadata.deletionTimestamp"}}}
    assert spec["next"] == {"delete": True}
    assert (spec["selector"]["matchLabels"], spec["weight"]) == ({LABEL_INSTANCE_TYPE: "a"}, 1)


@pytest.mark.parametrize(
    ("scale", "jitter", "named"), [(-1, 0, "scale: -1"), (1, -0.1, "jitter: -0.1"), (math.nan, 0, "scale: nan")]
)
def test_less_than_nothing_is_refused(scale: float, jitter: float, named: str) -> None:
    with pytest.raises(ValueError, match=f"{named} of launch times; must be 0 or more"):
        launch_stages([instance_type("a")], scale=scale, jitter=jitter)
