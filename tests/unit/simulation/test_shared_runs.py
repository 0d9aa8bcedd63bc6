"""Joint runs that can be worked out by hand, or that the notes on sharing give figures for."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest

from hetserve.demand import BatchMix
from hetserve.dispatch import make_policy
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System
from hetserve.simulation.run import ServiceLoad, play
from testing.dispatching import BATCHES, table
from testing.sharing import shared_service

FCFS = make_policy("fcfs")


def _service(name: str, use: ComputeUse, *, expected: float = 1.0, slo: float = 1.0) -> Service:
    """0.2, 0.25, 0.4, 0.6 s at batches 1, 2, 5, 10, without spread."""
    system = System.of({"a": table((0.2, 0.25, 0.4, 0.6))}, BATCHES, slo)
    return Service(name, system, FCFS, {"a": use}, {"a": expected})


def _on_one_gpu(*uses: ComputeUse) -> Session:
    run = Session([_service(f"s{k}", use) for k, use in enumerate(uses)])
    for k in range(len(uses)):
        run.join(GpuInstance(f"s{k}", "a", "g"))
    return run


def _arrive(run: Session, service: str, *queries: tuple[float, int]) -> range:
    """Queries (time, batch), of the mean service time."""
    times, batches = zip(*queries, strict=True)
    sizes = np.array([BATCHES.index(batch) for batch in batches])
    return run.arrive(service, np.array(times), sizes, np.full(len(queries), 0.5))


def test_two_that_use_the_whole_gpu_share_its_time() -> None:
    # s0 alone until 0.3, then both at half speed until 0.9, then s1 alone.
    run = _on_one_gpu(ComputeUse(1.0), ComputeUse(1.0))
    _arrive(run, "s0", (0.0, 10))
    _arrive(run, "s1", (0.3, 10))
    run.until()
    outcome = run.outcome()
    assert outcome.finish.tolist() == pytest.approx([0.9, 1.2])
    assert outcome.work.tolist() == pytest.approx([0.6, 0.6])
    assert outcome.peak.tolist() == [2.0, 2.0]


def test_a_neighbour_slows_by_its_coefficient_and_both_batches() -> None:
    # c 0.4 at batches 10 and 5: 1 + 0.4 sqrt(50) / 8, as long as both serve; toward s1 nothing.
    run = _on_one_gpu(ComputeUse(0.3), ComputeUse(0.3, {"s0": 0.4}))
    _arrive(run, "s0", (0.0, 10))
    _arrive(run, "s1", (0.0, 5))
    run.until()
    stretch = 1 + 0.4 * 50**0.5 / 8
    assert run.outcome().finish.tolist() == pytest.approx([0.4 + 0.6 - 0.4 / stretch, 0.4])
    assert run.outcome().peak.tolist() == pytest.approx([stretch, 1.0])


def test_instances_on_other_gpus_are_no_neighbours() -> None:
    run = Session([_service("s0", ComputeUse(1.0)), _service("s1", ComputeUse(1.0))])
    run.join(GpuInstance("s0", "a", "g0"))
    run.join(GpuInstance("s1", "a", "g1"))
    for name in ("s0", "s1"):
        _arrive(run, name, (0.0, 10))
    run.until()
    assert run.outcome().finish.tolist() == [0.6, 0.6]


def test_a_drained_instance_ends_what_it_serves_and_takes_no_more() -> None:
    run = _on_one_gpu(ComputeUse(1.0))
    _arrive(run, "s0", (0.0, 10), (0.1, 10))
    run.until(0.2)
    run.drain(0)
    assert run.until(5.0).tolist() == [0]
    assert len(run.standing().id) == 0
    number = run.join(GpuInstance("s0", "a", "g"))
    assert run.until().tolist() == [1]
    outcome = run.outcome()
    assert (outcome.start[1], outcome.instance[1]) == (5.0, number)
    assert run.standing().id.tolist() == [number]


def test_an_arrival_can_depend_on_a_completion() -> None:
    """A client that asks again 0.1 s after each answer."""
    run = _on_one_gpu(ComputeUse(1.0))
    _arrive(run, "s0", (0.0, 1))
    for _ in range(4):
        assert len(run.until(most_ended=1)) == 1
        _arrive(run, "s0", (run.now + 0.1, 1))
    run.until()
    assert run.outcome().start.tolist() == pytest.approx([0.0, 0.3, 0.6, 0.9, 1.2])


def test_a_copy_goes_its_own_way() -> None:
    run = _on_one_gpu(ComputeUse(1.0), ComputeUse(1.0))
    _arrive(run, "s0", (0.0, 10))
    run.until(0.3)
    other = copy.deepcopy(run)
    _arrive(other, "s1", (0.3, 10))
    other.until()
    run.until()
    assert run.outcome().finish.tolist() == [0.6]
    assert other.outcome().finish.tolist() == pytest.approx([0.9, 1.2])


# ResNet50, Inception-v3, SSD-ResNet50, Transformer: batch, share, c with itself (shared/notes: HetSev's figure 1).
MODELS = ((8, 0.571, 0.20), (8, 0.581, 0.22), (4, 0.513, 0.12), (2, 0.500, 0.10))


def test_three_replicas_on_one_gpu_serve_as_much_as_hetsev_says() -> None:
    """1.85 x one replica, on average over its four models."""
    gains = []
    for batch, share, c in MODELS:
        system = System.of({"a": table((0.1,), (batch,))}, (batch,), 1.0)
        run = Session([Service("m", system, FCFS, {"a": ComputeUse(share, {"m": c})})])
        for _ in range(3):
            run.join(GpuInstance("m", "a", "g"))
        run.arrive("m", np.zeros(3000), np.zeros(3000, np.int64), np.full(3000, 0.5))
        gains.append(len(run.until(50.0)) / (50.0 / 0.1))
    assert sum(gains) / 4 == pytest.approx(1.855, abs=0.005)


def test_reports_say_whether_each_slo_holds_and_what_stretch_was_met() -> None:
    mix = BatchMix.of([(batch, 1.0) for batch in BATCHES])
    uses = ComputeUse(0.6, otherwise=0.05), ComputeUse(0.6, otherwise=0.05)
    services = [
        shared_service(f"s{k}", FCFS, use, slo=slo) for k, (use, slo) in enumerate(zip(uses, (9.0, 0.5), strict=True))
    ]
    loads = [ServiceLoad(service, 1.2, mix, 95.0, stream) for stream, service in enumerate(services)]
    reports = play(loads, [GpuInstance(f"s{k}", "a", "g") for k in range(2)], seconds=2000.0, seed=7, warm_up=20.0)
    held = [one.in_time(load.percentile) and not one.unstable for one, load in zip(reports, loads, strict=True)]
    assert held == [True, False]
    for report in reports:
        assert 1.0 < report.stretch.mean < report.stretch.p99 <= report.stretch.most == pytest.approx(1.2)
        assert report.queries == 2400 - 24
        assert json.loads(json.dumps(report.stretch.as_json()))["most"] == report.stretch.most


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ComputeUse(0.0), "share 0.0: must be above 0"),
        (lambda: ComputeUse(1.1), "share 1.1: .* at most 1"),
        (lambda: ComputeUse(0.5, {"s": -0.1}), "interference -0.1 with s"),
        (lambda: Session([]), "no service given"),
        (lambda: Session([_service("s", ComputeUse())] * 2), "names of their own"),
        (lambda: _service("s", ComputeUse(), expected=0.9), "expected slow-down 0.9"),
        (lambda: _on_one_gpu(ComputeUse()).join(GpuInstance("x", "a", "g")), "no service x; there are: s0"),
        (lambda: _on_one_gpu(ComputeUse()).join(GpuInstance("s0", "z", "g")), "no instance type z; there are: a"),
        (lambda: _on_one_gpu(ComputeUse()).drain(7), "instance 7: there are 1"),
        (lambda: _arrive(_on_one_gpu(ComputeUse()), "s0", (-1.0, 1)), "time -1.0: must be at least 0"),
        (lambda: _on_one_gpu(ComputeUse()).until(-1.0), "time -1.0: must be at least 0"),
    ],
)
def test_what_does_not_fit_is_refused_with_field_and_value(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]
