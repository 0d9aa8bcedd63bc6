"""Promise: the queries that a router serves scale their service, and their sizes choose its types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.follower import CALM, LITTLE, PER_INSTANCE, Follower
from harness.prometheus import Prometheus
from harness.queries import playing
from harness.sandbox import Sandbox
from harness.serving import Serving, dispatched, serving, write_profiles
from harness.waiting import Unmet, wait_until

pytestmark = pytest.mark.deep


@pytest.fixture
def wire(cluster: Cluster) -> Iterator[Serving]:
    with serving(cluster) as made:
        yield made


def test_load_on_the_wire_brings_instances_and_gives_them_back_without_a_lost_query(
    cluster: Cluster, prometheus: Prometheus, wire: Serving, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        follower = Follower.of_one_type(sandbox, prometheus)
        given = dispatched(profile=write_profiles(sandbox, tmp_path), maxQueue=10_000)
        follower.begin(**{name.removeprefix("spec."): value for name, value in given.items()})
        sandbox.ready("svc")
        assert follower.decides("NoLoad", limits.ROLLOUT)["action"] == "ScaleDown"
        follower.serves(lambda count: count == 1, "one instance for no query")
        with playing(wire, namespace, "svc", "m", CALM) as player:
            assert follower.decides("LoadAboveCapacity", limits.ROLLOUT)["action"] == "ScaleUp"
            follower.serves(lambda count: count >= CALM / PER_INSTANCE, "instances for the queries")
            many = follower.instances()
            player.rate = LITTLE
            assert follower.decides("LoadFitsOnLess", limits.ROLLOUT)["action"] == "ScaleDown"
            follower.serves(lambda count: count < many, "fewer instances for fewer")
            player.more(round(LITTLE))
        player.assert_all_answered()
        assert {"LoadAboveCapacity", "LoadFitsOnLess"} <= set(follower.replayed(tmp_path))


LARGE = 10
"""Items of a query that an instance of the cheap type serves in 420 ms, and one of the dear type in 100."""


def latency(per_item: int) -> dict[str, Any]:
    return {"spec.latency": {"linear": {"intercept": "20ms", "slope": f"{per_item}ms"}}}


def test_sizes_on_the_wire_get_the_most_throughput_another_plan(
    cluster: Cluster, prometheus: Prometheus, wire: Serving, namespace: str, tmp_path: Path
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("cheap", count=1)
        sandbox.nodes("dear", count=1)
        cheap = sandbox.instance_type("cheap", gpu=False, overrides={"spec.price.hourly": "0.1"})
        dear = sandbox.instance_type("dear", gpu=False, overrides={"spec.price.hourly": "0.4"})
        sandbox.profile("m", cheap, overrides=latency(40))
        sandbox.profile("m", dear, overrides=latency(8))
        spec = {
            "spec.objective": "MaxThroughput",
            "spec.budget": {"hourly": "0.5"},
            "spec.load": {"batchSizes": [{"batch": 1, "weight": 1}]},
            "spec.metrics": {"source": "Hetserve"},
        }
        given = dispatched(profile=write_profiles(sandbox, tmp_path))
        sandbox.service("svc", "m", [cheap, dear], {**given, **spec})
        sandbox.ready("svc")
        wire.served(namespace, "svc", "m")
        assert sandbox.counts("svc") == {cheap: 5}

        def is_planned_anew() -> dict[str, int] | Unmet:
            counts = sandbox.counts("svc")
            return counts if counts.get(dear) else Unmet(counts)

        with playing(wire, namespace, "svc", "m", 8, sizes=(1, LARGE)) as player:
            wait_until(is_planned_anew, limits.ROLLOUT, "a plan for large queries")
            sandbox.ready("svc")
            player.instances.clear()
            player.more(40)
        player.assert_all_answered()
        assert any(dear in name for name in player.instances), player.instances
        (told, *_) = cluster.get("hisvc", "svc", namespace)["status"]["lastDecisions"]
        assert (told["action"], told["reason"]) == ("Replace", "BetterMix"), json.dumps(told)
