"""Laws of the queues: beta is kept, everybody is in one queue, and pods kept in line make the rounds as defined."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from effort import examples
from hetserve.base.units import MiB, Seconds
from hetserve.placement.queues.clustering import MOST_AUTO_QUEUES, Queues, Shape, cluster, silhouette
from hetserve.placement.queues.rounds import Fairness, QueueSettings, Waiting, Weights
from hetserve.placement.queues.waiting_line import WaitingLine
from testing.sorted_rounds import next_round, round_of

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


SETTINGS = st.builds(
    QueueSettings,
    queues=st.sampled_from([1, 2, 3, 4, 5, "auto"]),
    beta=st.integers(1, 9),
    seed=st.integers(0, 3),
    weights=st.sampled_from(Weights),
    oldest_every=st.sampled_from([1, 2, 2, 3, 8]),
)


@given(pods=waiting_pods(), rules=SETTINGS, outstanding=st.integers(0, 12))
def test_a_round_releases_what_beta_allows_and_no_more(
    pods: list[Waiting], rules: QueueSettings, outstanding: int
) -> None:
    result = round_of(pods, outstanding=outstanding, now=Seconds(60), largest_gpu=LARGEST, settings=rules)
    assert len(result.releases) == min(max(rules.beta - outstanding, 0), len(pods))
    uids = [release.pod.uid for release in result.releases]
    assert len(set(uids)) == len(uids)


@given(pods=waiting_pods(), rules=SETTINGS)
def test_every_pod_waits_in_exactly_one_queue_of_its_priority(pods: list[Waiting], rules: QueueSettings) -> None:
    result = round_of(pods, outstanding=0, now=Seconds(60), largest_gpu=LARGEST, settings=rules)
    for level in {pod.priority for pod in pods}:
        mine = [queue for queue in result.queues if queue.priority == level]
        shapes = [shape for queue in mine for shape in queue.shapes]
        assert sorted(shapes) == sorted({pod.shape for pod in pods if pod.priority == level})
        for queue in mine:
            assert queue.length == sum(pod.shape in queue.shapes for pod in pods if pod.priority == level)
        assert rules.queues == "auto" or len(mine) <= rules.queues
    assert len({queue.id for queue in result.queues}) == len(result.queues)


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
    result = round_of(pods, outstanding=0, now=Seconds(60), largest_gpu=LARGEST, settings=rules)
    released = [release.pod for release in result.releases]
    assert [pod.priority for pod in released] == sorted((pod.priority for pod in released), reverse=True)
    out = [pod.uid for pod in released]
    left = [pod.priority for pod in pods if pod.uid not in out]
    assert not left or all(pod.priority >= max(left) for pod in released), "a lower priority goes while a higher waits"
    for queue in result.queues:
        members = [pod for pod in pods if pod.priority == queue.priority and pod.shape in queue.shapes]
        mine = [uid for uid in out if uid in {pod.uid for pod in members}]
        assert mine == [pod.uid for pod in sorted(members, key=_age)][: len(mine)]


class Comings(RuleBasedStateMachine):
    """Pods come, change, go and are released; the line's rounds are those of the definition, state and all."""

    def __init__(self) -> None:
        super().__init__()
        self.pods: dict[str, Waiting] = {}
        self.now = 100.0
        self.fairness = Fairness()

    @initialize(how=SETTINGS)
    def start(self, how: QueueSettings) -> None:
        self.how = how
        self.line = WaitingLine(how)

    @rule(
        number=st.integers(0, 40),
        mib=st.sampled_from([0, 500, 1000, 2000, 4000, 8000, 30000]),
        model=st.sampled_from(["a", "b", "c", "d", None]),
        age=st.integers(0, 5),
        priority=st.sampled_from([0, 0, 0, 10, -3]),
        gpus=st.sampled_from([1, 1, 2]),
        copies=st.sampled_from([1, 1, 12]),
    )
    def come(self, number: int, mib: int, model: str | None, age: int, priority: int, gpus: int, copies: int) -> None:
        for copy in range(copies):
            uid, since = f"u{number}-{copy}", Seconds(self.now - age)
            pod = Waiting(uid, "d", uid, MiB(mib), model, since, priority, gpus)
            self.pods[uid] = pod
            self.line.put(pod)

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def go(self, data: st.DataObject) -> None:
        uid = data.draw(st.sampled_from(sorted(self.pods)))
        del self.pods[uid]
        self.line.discard(uid)
        self.line.discard(uid)

    @rule(outstanding=st.integers(0, 9), later=st.integers(0, 3), refused=st.booleans())
    def round(self, outstanding: int, later: int, refused: bool) -> None:
        self.now += later
        at = Seconds(self.now)
        plain = next_round(
            self.pods.values(),
            outstanding=outstanding,
            now=at,
            largest_gpu=LARGEST,
            settings=self.how,
            fairness=self.fairness,
        )
        made = self.line.round(outstanding=outstanding, now=at, largest_gpu=LARGEST)
        assert made == plain
        self.fairness = plain.fairness
        for release in plain.releases[refused:]:  # the first may be refused and stays
            del self.pods[release.pod.uid]
            self.line.discard(release.pod.uid)

    @invariant()
    def same_pods(self) -> None:
        if hasattr(self, "line"):
            assert set(self.line) == set(self.pods.values())


TestComings = Comings.TestCase
TestComings.settings = settings(max_examples=examples(60), stateful_step_count=30, deadline=None)


@given(
    counts=st.dictionaries(
        st.builds(Shape, st.sampled_from([MiB(m) for m in (500, 1000, 9000, 32000)]), st.sampled_from("abcd")),
        st.integers(1, 100),
        max_size=16,
    ),
    k=st.one_of(st.integers(1, 6), st.just("auto")),
    seed=st.integers(0, 5),
)
def test_clusters_partition_the_shapes_and_repeat(counts: dict[Shape, int], k: Queues, seed: int) -> None:
    groups = cluster(counts, k, LARGEST, seed)
    assert sorted(shape for group in groups for shape in group) == sorted(counts)
    assert len(groups) <= (MOST_AUTO_QUEUES if k == "auto" else k)
    assert all(groups)
    assert groups == cluster(dict(reversed(counts.items())), k, LARGEST, seed)


@given(
    weights=st.lists(st.integers(1, 5), min_size=3, max_size=9),
    spots=st.lists(st.integers(0, 30), min_size=9, max_size=9),
    labels=st.lists(st.integers(0, 2), min_size=9, max_size=9),
)
def test_the_silhouette_is_the_one_of_rousseeuw_with_weights(
    weights: list[int], spots: list[int], labels: list[int]
) -> None:
    n = len(weights)
    groups = {label: [i for i in range(n) if labels[i] == label] for label in set(labels[:n])}
    apart = [[abs(spots[i] - spots[j]) for j in range(n)] for i in range(n)]

    def mean(i: int, members: list[int]) -> float:
        return sum(weights[j] * apart[i][j] for j in members) / sum(weights[j] for j in members)

    total = 0.0
    for i in range(n):
        others = [j for j in groups[labels[i]] if j != i]
        rivals = [mean(i, members) for label, members in groups.items() if label != labels[i]]
        if others and rivals and (larger := max(mean(i, others), min(rivals))) > 0:
            total += weights[i] * (min(rivals) - mean(i, others)) / larger
    found = silhouette(np.array(apart, float), np.array(weights, float), np.array(labels[:n]))
    assert abs(found - total / sum(weights)) < 1e-9


def _age(pod: Waiting) -> tuple[float, str, str]:
    return pod.since, pod.name, pod.uid
