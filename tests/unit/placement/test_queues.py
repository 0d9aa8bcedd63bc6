"""HetSev's queues on cases small enough to follow by hand."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hetserve.placement import QueueSettings, Waiting, next_round
from hetserve.placement.clustering import Shape, cluster
from hetserve.units import MiB, Seconds

LARGEST = MiB(32768)


def _pods(model: str, count: int, *, since: float = 0.0, mib: int = 4000) -> list[Waiting]:
    return [Waiting(f"{model}{n}", "d", f"{model}{n}", MiB(mib), model, Seconds(since)) for n in range(count)]


def test_shapes_that_are_alike_share_a_queue() -> None:
    counts = {Shape(MiB(mib), model): 5 for model in "ab" for mib in (1000, 1100, 30000, 31000)}
    groups = cluster(counts, 4, LARGEST, seed=0)
    assert [[(shape.model, shape.memory_mib) for shape in group] for group in groups] == [
        [("a", 1000), ("a", 1100)],
        [("b", 1000), ("b", 1100)],
        [("a", 30000), ("a", 31000)],
        [("b", 30000), ("b", 31000)],
    ]


def test_fewer_shapes_than_queues_need_no_scikit_learn() -> None:
    code = (
        "import sys; from hetserve.placement.clustering import *; "
        "cluster({Shape(1, 'a'): 1, Shape(2, 'b'): 1}, 2, 10, 0); sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_weight_is_length_times_one_second_plus_the_median_wait() -> None:
    pods = [*_pods("a", 2, since=90.0), *_pods("a1", 0), *_pods("b", 3, since=97.0)]
    queues = next_round(pods, outstanding=8, now=Seconds(100), largest_gpu=LARGEST, settings=QueueSettings()).queues
    assert [(queue.weight, queue.median_wait) for queue in queues] == [(2 * 11.0, 10.0), (3 * 4.0, 3.0)]


def test_releases_follow_the_weights() -> None:
    pods = [*_pods("a", 60), *_pods("b", 20)]
    result = next_round(pods, outstanding=0, now=Seconds(9), largest_gpu=LARGEST, settings=QueueSettings(beta=40))
    assert [queue.released for queue in result.queues] == [30, 10]


def test_an_idle_cluster_releases_the_first_pod_at_once() -> None:
    result = next_round(
        _pods("a", 1, since=5.0), outstanding=0, now=Seconds(5), largest_gpu=LARGEST, settings=QueueSettings()
    )
    assert [release.pod.uid for release in result.releases] == ["a0"]
    assert result.reason == "0 of 8 released pods are unbound, 1 wait"


def test_a_clock_behind_the_creation_time_is_no_wait() -> None:
    (queue,) = next_round(
        _pods("a", 1, since=50.0), outstanding=0, now=Seconds(5), largest_gpu=LARGEST, settings=QueueSettings()
    ).queues
    assert queue.median_wait == 0.0


def test_no_queue_is_no_number_of_queues() -> None:
    with pytest.raises(ValueError, match="0 is not a number of queues"):
        cluster({Shape(MiB(1), "a"): 1}, 0, LARGEST, 0)


def test_the_bound_on_waiting_is_told_for_every_priority() -> None:
    result = next_round(
        _pods("a", 5), outstanding=6, now=Seconds(5), largest_gpu=LARGEST, settings=QueueSettings(beta=8)
    )
    assert len(result.releases) == 2
    assert result.wait_bounds() == {0: 8 * 3}
