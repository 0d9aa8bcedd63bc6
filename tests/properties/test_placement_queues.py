"""Laws of the queues: beta is kept, everybody is in one queue, nobody starves."""

from __future__ import annotations

import random

import sklearn.cluster  # noqa: F401  (imported here, or the first example that clusters pays a second for it)
from hypothesis import given, settings
from hypothesis import strategies as st

from hetserve.placement import Fairness, QueueSettings, Waiting, next_round
from hetserve.placement.clustering import Shape, cluster
from hetserve.placement.queues import oldest_turn
from hetserve.units import MiB, Seconds

LARGEST = MiB(32768)


@st.composite
def waiting_pods(draw: st.DrawFn, most: int = 30) -> list[Waiting]:
    count = draw(st.integers(0, most))
    return [
        Waiting(
            uid=f"u{number}",
            namespace="d",
            name=f"p{number}",
            memory_mib=MiB(draw(st.sampled_from([1000, 2000, 4000, 8000, 16000, 32000]))),
            model=draw(st.sampled_from(["a", "b", "c", None])),
            since=Seconds(float(draw(st.integers(0, 50)))),
            priority=draw(st.sampled_from([0, 0, 0, 10])),
        )
        for number in range(count)
    ]


SETTINGS = st.builds(QueueSettings, queues=st.integers(1, 5), beta=st.integers(1, 9), seed=st.integers(0, 3))


@given(pods=waiting_pods(), rules=SETTINGS, outstanding=st.integers(0, 12))
def test_a_round_releases_what_beta_allows_and_no_more(
    pods: list[Waiting], rules: QueueSettings, outstanding: int
) -> None:
    result = next_round(pods, outstanding=outstanding, now=Seconds(60), largest_gpu=LARGEST, settings=rules)
    assert len(result.releases) == min(max(rules.beta - outstanding, 0), len(pods))
    uids = [release.pod.uid for release in result.releases]
    assert len(set(uids)) == len(uids)


@given(pods=waiting_pods(), rules=SETTINGS)
def test_every_pod_waits_in_exactly_one_queue_of_its_priority(pods: list[Waiting], rules: QueueSettings) -> None:
    result = next_round(pods, outstanding=0, now=Seconds(60), largest_gpu=LARGEST, settings=rules)
    assert sorted(uid for queue in result.queues for uid in queue.members) == sorted(pod.uid for pod in pods)
    priority = {pod.uid: pod.priority for pod in pods}
    for queue in result.queues:
        assert {priority[uid] for uid in queue.members} == {queue.priority}
    for level in {pod.priority for pod in pods}:
        assert sum(queue.priority == level for queue in result.queues) <= rules.queues


@given(pods=waiting_pods(), rules=SETTINGS, order=st.randoms(use_true_random=False))
def test_the_order_of_the_input_does_not_matter(
    pods: list[Waiting], rules: QueueSettings, order: random.Random
) -> None:
    shuffled = order.sample(pods, len(pods))
    first, second = (
        next_round(given_, outstanding=0, now=Seconds(60), largest_gpu=LARGEST, settings=rules)
        for given_ in (pods, shuffled)
    )
    assert first == second


@given(pods=waiting_pods(), rules=SETTINGS)
def test_higher_priorities_go_first_and_a_queue_is_first_come_first_served(
    pods: list[Waiting], rules: QueueSettings
) -> None:
    result = next_round(pods, outstanding=0, now=Seconds(60), largest_gpu=LARGEST, settings=rules)
    released = [release.pod for release in result.releases]
    assert [pod.priority for pod in released] == sorted((pod.priority for pod in released), reverse=True)
    uids = {pod.uid for pod in released}
    for queue in result.queues:
        count = len(uids & set(queue.members))
        assert uids & set(queue.members) == set(queue.members[:count])


@settings(max_examples=60)
@given(
    pods=waiting_pods(most=12),
    rules=SETTINGS,
    arrivals=st.lists(st.sampled_from([0, 1, 5, 20]), min_size=5, max_size=40),
)
def test_nobody_starves_whatever_keeps_coming(pods: list[Waiting], rules: QueueSettings, arrivals: list[int]) -> None:
    """With n older pods of its priority, a pod is out within p x (n + 1) releases of that priority."""
    pods = [pod for pod in pods if pod.priority == 0]
    bound = {pod.uid: oldest_turn(rules.beta) * (rank + 1) for rank, pod in enumerate(sorted(pods, key=_age))}
    queue, now, released, fairness, born = {pod.uid: pod for pod in pods}, 60.0, 0, Fairness(), 0
    for arriving in arrivals:
        for _ in range(arriving):  # always the same heavy shape: it would win every round by weight alone
            born += 1
            name = f"z{born}"
            queue[name] = Waiting(name, "d", name, MiB(500), "z", Seconds(now))
        now += 1.0
        result = next_round(
            queue.values(), outstanding=0, now=Seconds(now), largest_gpu=LARGEST, settings=rules, fairness=fairness
        )
        fairness = result.fairness
        for release in result.releases:
            released += 1
            del queue[release.pod.uid]
            assert released <= bound.get(release.pod.uid, released), "a pod waited longer than its bound"
        for uid, most in bound.items():
            assert uid not in queue or released < most, "a pod waits although its bound has passed"


@given(
    counts=st.dictionaries(
        st.builds(Shape, st.sampled_from([MiB(m) for m in (500, 1000, 9000, 32000)]), st.sampled_from("abcd")),
        st.integers(1, 100),
        max_size=16,
    ),
    k=st.integers(1, 6),
    seed=st.integers(0, 5),
)
def test_clusters_partition_the_shapes_and_repeat(counts: dict[Shape, int], k: int, seed: int) -> None:
    groups = cluster(counts, k, LARGEST, seed)
    assert sorted(shape for group in groups for shape in group) == sorted(counts)
    assert len(groups) <= k
    assert all(groups)
    assert groups == cluster(dict(reversed(counts.items())), k, LARGEST, seed)


def _age(pod: Waiting) -> tuple[float, str, str]:
    return pod.since, pod.name, pod.uid
