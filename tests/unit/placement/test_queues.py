"""HetSev's queues on cases small enough to follow by hand."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.base.units import MiB, Seconds
from hetserve.placement.queues.clustering import Shape, cluster
from hetserve.placement.queues.rounds import Fairness, QueueSettings, Round, Waiting, Weights, overdue
from hetserve.placement.queues.waiting_line import WaitingLine
from testing.sorted_rounds import round_of

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


def test_weight_is_length_times_one_second_plus_the_median_wait() -> None:
    pods = [*_pods("a", 2, since=90.0), *_pods("a1", 0), *_pods("b", 3, since=97.0)]
    queues = round_of(pods, outstanding=8, now=Seconds(100), largest_gpu=LARGEST, settings=QueueSettings()).queues
    assert [(queue.weight, queue.median_wait) for queue in queues] == [(2 * 11.0, 10.0), (3 * 4.0, 3.0)]


@pytest.mark.parametrize(
    ("rule", "released"),
    [
        pytest.param(Weights.HETSEV, [30, 10], id="HetSev: every pod is due alike"),
        pytest.param(Weights.WAIT, [20, 20], id="wait: queues that waited alike are due alike"),
        pytest.param(Weights.EQUAL, [20, 20], id="equal: every queue is due alike"),
    ],
)
def test_releases_follow_the_weights(rule: Weights, released: list[int]) -> None:
    result = _round([*_pods("a", 60), *_pods("b", 20)], beta=40, weights=rule, oldest_every=1000)
    assert [queue.released for queue in result.queues] == released


@pytest.mark.parametrize(
    ("rule", "released"),
    [
        pytest.param(Weights.HETSEV, [32, 8], id="HetSev"),
        pytest.param(Weights.WAIT, [32, 8], id="wait"),
        pytest.param(Weights.EQUAL, [20, 20], id="equal: a wait counts for nothing"),
    ],
)
def test_a_queue_that_waited_longer_is_due_more_unless_all_are_due_alike(rule: Weights, released: list[int]) -> None:
    pods = [*_pods("a", 60, since=1.0), *_pods("b", 60, since=76.0)]  # 99 s and 24 s: weights of 4 to 1
    result = _round(pods, beta=40, weights=rule, oldest_every=1000)
    assert [queue.released for queue in result.queues] == released


def test_the_oldest_always_is_the_order_of_age() -> None:
    pods = [*_pods("a", 9, since=50.0), *_pods("b", 3, since=20.0), *_pods("c", 2, since=30.0)]
    result = _round(pods, beta=7, oldest_every=1)
    assert [release.pod.uid for release in result.releases] == ["b0", "b1", "b2", "c0", "c1", "a0", "a1"]
    assert result.wait_bounds() == {0: 7}


def test_a_turn_of_the_oldest_that_never_comes_is_no_bound() -> None:
    with pytest.raises(ValueError, match="oldest_every: 0 gives the oldest pod no turn; at least 1 is needed"):
        QueueSettings(oldest_every=0)


def test_an_idle_cluster_releases_the_first_pod_at_once() -> None:
    result = round_of(
        _pods("a", 1, since=5.0), outstanding=0, now=Seconds(5), largest_gpu=LARGEST, settings=QueueSettings()
    )
    assert [release.pod.uid for release in result.releases] == ["a0"]


def test_a_clock_behind_the_creation_time_is_no_wait() -> None:
    (queue,) = round_of(
        _pods("a", 1, since=50.0), outstanding=0, now=Seconds(5), largest_gpu=LARGEST, settings=QueueSettings()
    ).queues
    assert queue.median_wait == 0.0


def test_no_queue_is_no_number_of_queues() -> None:
    with pytest.raises(ValueError, match='0 is not a number of queues; at least 1, or "auto", is needed'):
        cluster({Shape(MiB(1), "a"): 1}, 0, LARGEST, 0)


def test_every_priority_has_a_bound_on_waiting() -> None:
    result = round_of(_pods("a", 5), outstanding=6, now=Seconds(5), largest_gpu=LARGEST, settings=QueueSettings(beta=8))
    assert len(result.releases) == 2
    assert result.wait_bounds() == {0: 2 * 3}


def test_auto_finds_the_groups_there_are() -> None:
    counts = {Shape(MiB(mib), model): 5 for model in "ab" for mib in (1000, 1100, 30000, 31000)}
    assert cluster(counts, "auto", LARGEST, seed=0) == cluster(counts, 4, LARGEST, seed=0)


def test_auto_gives_every_shape_a_queue_where_none_are_alike() -> None:
    counts = {Shape(MiB(4000), model): 5 for model in "abcdef"}
    assert len(cluster(counts, "auto", LARGEST, seed=0)) == 6


def test_auto_is_capped_and_judges_thousands_of_shapes_by_the_most_frequent() -> None:
    counts = {Shape(MiB(1 + number), str(number)): 1 + number % 7 for number in range(3000)}
    assert 2 <= len(cluster(counts, "auto", LARGEST, seed=0)) <= 8


def test_whole_gpus_and_several_of_them_are_shapes_of_their_own() -> None:
    assert Shape(MiB(0), "a").size(LARGEST) == Shape(LARGEST, "a").size(LARGEST) == 1.0
    assert Shape(MiB(8192), "a", gpus=4).size(LARGEST) == 1.0


def _round(pods: list[Waiting], fairness: Fairness | None = None, **rules: Any) -> Round:
    return round_of(
        pods,
        outstanding=0,
        now=Seconds(100),
        largest_gpu=LARGEST,
        settings=QueueSettings(**rules),
        fairness=fairness,
    )


def _queue_of(made: Round) -> dict[str, int]:
    return {shape.model: queue.id for queue in made.queues for shape in queue.shapes}


def test_a_queue_keeps_its_id_while_pods_wait_in_it() -> None:
    both = [*_pods("a", 20), *_pods("b", 20)]
    first = _round(both, beta=2)
    assert _queue_of(first) == {"a": 0, "b": 1}
    only_b = _round(_pods("b", 15), first.fairness, beta=2)
    assert _queue_of(only_b) == {"b": 1}, "the queue of b must not turn into the queue of a"
    back = _round([*_pods("a", 20), *_pods("b", 15), *_pods("0", 1)], only_b.fairness, beta=2)
    assert _queue_of(back) == {"0": 0, "a": 2, "b": 1}


def test_ids_follow_most_of_the_pods_when_queues_are_clustered_anew() -> None:
    pods = [p for model in "abc" for p in _pods(model, 30)]
    first = _round(pods, queues=2, beta=1)
    ids = _queue_of(first)
    grown = _round([*pods, *_pods("d", 200)], first.fairness, queues=2, beta=1)
    heaviest = max("abc", key=lambda model: sum(ids[other] == ids[model] for other in "abc"))
    assert _queue_of(grown)[heaviest] == ids[heaviest]
    assert _queue_of(grown)["d"] in {0, 1}


def test_a_new_shape_joins_the_queue_most_like_it_until_a_quarter_has_changed() -> None:
    pods = [*_pods("a", 50, mib=1000), *_pods("b", 50, mib=1000), *_pods("c", 50, mib=30000)]
    first = _round(pods, queues=2, beta=1)
    joined = _round([*pods, *_pods("e", 3, mib=29000)], first.fairness, queues=2, beta=1)
    assert joined.fairness.partitions[0].basis is first.fairness.partitions[0].basis
    assert _queue_of(joined)["e"] == _queue_of(first)["c"]


def test_credit_follows_the_pods_to_their_new_queues() -> None:
    first = _round([p for model in "abc" for p in _pods(model, 10)], queues=3, beta=5)
    assert sum(first.fairness.credit.values()) == pytest.approx(0.0)
    again = _round([p for model in "abcd" for p in _pods(model, 10)], first.fairness, queues=2, beta=5)
    assert sum(again.fairness.credit.values()) == pytest.approx(0.0)


def test_an_elephant_among_shapes_leaves_the_mice_their_share() -> None:
    """200 pods of one shape and 2 of another: by length alone the mice would get one place in a hundred."""
    line, now, rounds = WaitingLine(QueueSettings(queues=2, beta=2)), 0.0, 0
    for pod in [*_pods("elephant", 200), *_pods("mouse", 2)]:
        line.put(pod)
    while any(pod.model == "mouse" for pod in line):
        now, rounds = now + 1.0, rounds + 1
        for release in line.round(outstanding=0, now=Seconds(now), largest_gpu=LARGEST).releases:
            line.discard(release.pod.uid)
    assert rounds <= 101, "the mice waited for every pod of the elephant"


def test_a_release_says_whose_turn_it_is() -> None:
    pods = [*_pods("a", 3, since=1.0), *_pods("b", 1, since=4.0)]
    reasons = [release.reason.text for release in _round(pods, beta=2).releases]
    assert reasons == ["queue 0 holds 76% of the weight", "has waited longest"]


def test_an_overdue_release_names_its_setting() -> None:
    assert overdue(90.0).text == ("at the gate for longer than 90 s, released out of turn (queue.failOpenAfter)")
