"""The bound on waiting, against an adversary that decides what arrives, what binds, what sticks and what is lost."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.base.units import MiB, Seconds
from hetserve.placement.queues.rounds import QueueSettings, Waiting, Weights
from hetserve.placement.queues.waiting_line import WaitingLine

LARGEST = MiB(32768)


@dataclass
class Simulation:
    """A cluster as the controller sees it: pods at the gate, released pods that count, and releases so far."""

    line: WaitingLine
    now: float = 0.0
    born: int = 0
    outstanding: list[Waiting] = field(default_factory=list)
    hidden: list[Waiting] = field(default_factory=list)
    released: dict[int, int] = field(default_factory=dict)
    start: dict[str, int] = field(default_factory=dict)
    older: dict[str, int] = field(default_factory=dict)

    def arrive(self, mib: int, model: str, priority: int, age: int, count: int) -> None:
        for _ in range(count):
            self.born += 1
            uid = f"p{self.born}"
            since = Seconds(max(self.now - age, 0.0))
            self.wait(Waiting(uid, "d", uid, MiB(mib), model, since, priority))

    def wait(self, pod: Waiting) -> None:
        """Put a pod in line and note, for it and for all that it overtakes, how many older ones there are."""
        rivals = [other for other in self.line if other.priority == pod.priority]
        self.older[pod.uid] = sum(_age(other) < _age(pod) for other in rivals)
        for other in rivals:
            self.older[other.uid] += _age(pod) < _age(other)
        self.start[pod.uid] = self.released.get(pod.priority, 0)
        self.line.put(pod)

    def round(self, refused: int) -> None:
        beta, period = self.line.settings.beta, self.line.settings.oldest_every
        made = self.line.round(outstanding=len(self.outstanding), now=Seconds(self.now), largest_gpu=LARGEST)
        assert len(self.outstanding) + len(made.releases) <= max(beta, len(self.outstanding)), "beta was not kept"
        bounds = made.wait_bounds()
        for number, release in enumerate(made.releases):
            pod = release.pod
            self.released[pod.priority] = self.released.get(pod.priority, 0) + 1
            waited = self.released[pod.priority] - self.start[pod.uid]
            most = period * (self.older[pod.uid] + 1)
            assert waited <= most, f"{pod.uid} left after {waited} releases of its priority; its bound is {most}"
            self.line.discard(pod.uid)
            (self.hidden if number < refused else self.outstanding).append(pod)
        for pod in self.line:
            gone = self.released.get(pod.priority, 0) - self.start[pod.uid]
            assert gone < period * (self.older[pod.uid] + 1), f"{pod.uid} still waits past its bound"
            assert bounds[pod.priority] >= period, "the exported bound forgets a waiting pod"


STEPS = st.one_of(
    st.tuples(
        st.just("arrive"),
        st.sampled_from([0, 500, 1000, 9000, 30000]),
        st.sampled_from(["a", "b", "c", "d", "e", "heavy"]),
        st.sampled_from([0, 0, 0, 5, -1]),
        st.sampled_from([0, 0, 0, 30]),
        st.sampled_from([1, 1, 5, 40]),
    ),
    st.tuples(st.just("bind"), st.integers(1, 9)),
    st.tuples(st.just("stick"), st.integers(1, 9)),
    st.tuples(st.just("delete"), st.integers(0, 200)),
    st.tuples(st.just("return")),
    st.tuples(st.just("round"), st.integers(0, 2), st.integers(0, 60)),
)


@settings(max_examples=examples(120), deadline=None)
@given(
    rules=st.builds(
        QueueSettings,
        queues=st.sampled_from([1, 2, 4, "auto"]),
        beta=st.integers(1, 9),
        weights=st.sampled_from(Weights),
        oldest_every=st.sampled_from([1, 2, 2, 3, 8]),
    ),
    steps=st.lists(STEPS, min_size=10, max_size=60),
)
def test_nobody_waits_longer_than_the_bound_whatever_happens(
    rules: QueueSettings, steps: list[tuple[object, ...]]
) -> None:
    simulation = Simulation(WaitingLine(rules))
    for step in [*steps, *[("bind", 9), ("round", 0, 1)] * 20]:
        _play(simulation, step)


def _play(simulation: Simulation, step: tuple[object, ...]) -> None:
    match step:
        case ("arrive", int(mib), str(model), int(priority), int(age), int(count)):
            simulation.arrive(mib, model, priority, age, count)
        case ("bind" | "stick", int(count)):  # bound, or unschedulable for so long that it stops counting
            del simulation.outstanding[:count]
        case ("delete", int(which)):
            pods = sorted(simulation.line, key=_age)
            if pods:
                simulation.line.discard(pods[which % len(pods)].uid)
        case ("return",):  # a patch was refused, or its answer lost: the pod is back at the gate, as old as it was
            for pod in simulation.hidden:
                simulation.wait(pod)
            simulation.hidden.clear()
        case ("round", int(refused), int(later)):
            simulation.now += later
            simulation.round(refused)


def test_an_endless_stream_of_a_heavy_shape_does_not_starve_one_pod() -> None:
    simulation = Simulation(WaitingLine(QueueSettings(queues=2, beta=8)))
    simulation.arrive(9000, "lonely", 0, 0, 1)
    for _ in range(40):
        simulation.now += 1.0
        simulation.arrive(500, "heavy", 0, 0, 50)
        simulation.outstanding.clear()
        simulation.round(refused=0)
    assert "p1" not in simulation.line


def _age(pod: Waiting) -> tuple[float, str, str, str]:
    return pod.since, pod.namespace, pod.name, pod.uid
