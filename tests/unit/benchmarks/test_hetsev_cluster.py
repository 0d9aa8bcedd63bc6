"""Laws of the simulated cluster: queries, clients, memory and launches, under controllers that do anything."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from benchmarks.hetsev.assumptions import given as assumed
from benchmarks.hetsev.clients import NOBODY, Senders
from benchmarks.hetsev.cluster import play, service_of
from benchmarks.hetsev.gauges import gpu_use
from benchmarks.hetsev.measures import courses, figures
from benchmarks.hetsev.played import Instance
from benchmarks.hetsev.policy import STEP, Decided, Seen, Start
from benchmarks.hetsev.scene import Scene, Workload
from benchmarks.hetsev.workloads import cost, production, waves
from hypothesis import given, settings
from hypothesis import strategies as st

from hetserve.dispatch import make_policy
from hetserve.serving.services import GpuInstance
from hetserve.serving.session import Session
from hetsev_laws import Told, check

ASSUMED = assumed()
MODELS = ("resnet50", "inception-v3")


def scene(rate: float = 40.0, *, waits: bool = True, end: float = 90.0, most: int | None = None) -> Scene:
    """Two models with equal rates on four V100 and two T4, from 30 s before the measured time."""
    small = {"v100": replace(ASSUMED.gpus["v100"], nodes=2), "t4": replace(ASSUMED.gpus["t4"], nodes=1)}
    rates = dict.fromkeys(MODELS, (rate,) * 3)
    return Scene(replace(ASSUMED, gpus=small), Workload(-30.0, end, rates, waits), most, seed=3)


def at_first(*starts: Start) -> Told:
    return Told(lambda seen: Decided(starts if not seen.instances else ()))


ONE_EACH = at_first(*(Start(model, f"v100-{k}/0") for k, model in enumerate(MODELS)))

wishes = st.lists(
    st.tuples(st.sampled_from(("start", "stop")), st.sampled_from(MODELS), st.integers(0, 30)), min_size=8, max_size=8
)


def legal(seen: Seen, of: Scene, wish: tuple[str, str, int]) -> Decided:
    """What is wished, where a cluster could do it."""
    what, model, number = wish
    if what == "stop":
        here = seen.of(model)
        return Decided(stop=(here[number % len(here)].id,) if here else ())
    gpu = seen.gpus[number % len(seen.gpus)]
    held = sum(of.assumed.models[one.service].memory_mib for one in seen.on(gpu.name))
    fits = held + of.assumed.models[model].memory_mib <= gpu.memory_mib
    return Decided((Start(model, gpu.name),) if fits else ())


@settings(max_examples=25)
@given(wishes, st.booleans())
def test_laws_hold_whatever_a_controller_does(wished: list[tuple[str, str, int]], waits: bool) -> None:
    told, of = iter(wished * 9), scene(60.0, waits=waits)
    check(play(of, Told(lambda seen: legal(seen, of, next(told)))))


def test_nothing_is_served_before_an_instance_is_launched_and_by_all_that_was_sent_is_answered_later() -> None:
    played = play(scene(), ONE_EACH)
    for queries in played.queries.values():
        assert np.nanmin(queries.start) == pytest.approx(-30.0 + ASSUMED.launch)
        early = queries.during(-30.0, 60.0)
        assert not np.isnan(early.finish).any()
    assert figures(played).attainment > 0.99


def test_a_client_has_one_query_under_way_and_all_of_them_are_as_many_as_the_rate_asks_for() -> None:
    of = scene(200.0)
    session = Session([service_of(of, model, make_policy("fcfs")) for model in MODELS])
    session.join_all(GpuInstance(model, "v100", "g") for model in MODELS)  # too few: queries wait
    senders, spans = Senders(of, session), []
    for step in range(6):
        senders.plan(step * STEP)
        ids = session.until((step + 1) * STEP)
        ended = session.outcome(ids)
        spans += list(zip(senders.owner[ids], ended.arrival, ended.finish, strict=True))
        senders.kept(session.forget())
        under_way = np.bincount(session.outcome().service[~np.isnan(session.outcome().arrival)])
        assert (under_way <= 200).all()
    by_client: dict[int, list[tuple[float, float]]] = {}
    for owner, arrival, finish in spans:
        by_client.setdefault(int(owner), []).append((arrival, finish))
    assert NOBODY not in by_client
    assert len(by_client) == 2 * 200
    for turns in by_client.values():
        turns.sort()
        assert all(one[1] <= other[0] for one, other in pairwise(turns))


@pytest.mark.parametrize("waits", [True, False])
def test_queries_are_sent_at_the_rate_of_the_workload_where_nothing_waits(waits: bool) -> None:
    rates = tuple(20.0 + 10.0 * (step // 8 % 3) for step in range(40))
    of = scene(waits=waits, end=540.0)
    of = replace(of, workload=replace(of.workload, rates=dict.fromkeys(MODELS, rates)))
    four = [Start(model, f"v100-{k % 2}/{k // 2}") for model in MODELS for k in range(4)]
    found = courses(play(of, at_first(*four)))
    wanted = np.array([2 * of.workload.rate("resnet50", at - STEP / 2) for at in found.times])
    assert found.throughput[4:].mean() == pytest.approx(wanted[4:].mean(), rel=0.03)
    assert np.abs(found.throughput[4:] / wanted[4:] - 1).mean() < 0.12


def test_throughput_falls_where_clients_wait_and_all_that_can_be_served_is() -> None:
    found = figures(play(scene(300.0, end=180.0), ONE_EACH))
    assert found.throughput == pytest.approx(62.5 + 40.0, rel=0.02), "each instance is always busy"
    assert found.response == pytest.approx(600 / 102.5 - 1.0, rel=0.1), "clients = throughput x (think + response)"


def test_a_stopped_instance_serves_what_it_has_and_takes_nothing_more() -> None:
    def decides(seen: Seen) -> Decided:
        if not seen.instances and seen.now < 0:
            return Decided((Start("resnet50", "t4-0/0"), Start("inception-v3", "t4-0/1")))
        return Decided(stop=(0,)) if seen.now == 30.0 else Decided()

    of = replace(scene(), assumed=scene().assumed.scaled(slower={"t4": 4.0}))
    played = play(of, Told(decides))
    one = played.instances[0]
    queries = played.queries["resnet50"]
    assert one.stopped == 30.0
    assert 30.0 < one.gone == np.nanmax(queries.finish) < 31.0
    assert np.nanmax(queries.start) <= 30.0


@pytest.mark.parametrize(
    ("decided", "words"),
    [
        (Decided((Start("resnet50", "v100-9/0"),)), "start of resnet50 on v100-9/0: no such model or GPU"),
        (Decided((Start("bert", "v100-0/0"),)), "start of bert on v100-0/0: no such model or GPU"),
        (Decided(stop=(7,)), "stop of instance 7: there is none"),
        (Decided((Start("resnet50", "t4-0/0"),) * 6), r"needs 3072 MiB, 1024 of 16384 MiB are free"),
        (Decided(tuple(Start("resnet50", f"v100-0/{k % 2}") for k in range(6))), "at most 5 instances may be there"),
    ],
)
def test_what_no_cluster_could_do_is_refused(decided: Decided, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        play(scene(most=5 if "most" in words else None), Told(lambda _seen: decided))


def test_a_controller_sees_what_was_measured_and_nothing_of_what_is_to_come() -> None:
    told = at_first(*(Start(model, "v100-0/0", f"{model}-1") for model in MODELS))
    play(scene(), told)
    first, second, last = told.looks[0], told.looks[1], told.looks[-1]
    assert first.now == -30.0
    assert all(service.sent == () and service.expected == 40.0 for service in first.services.values())
    assert [one.name for one in second.instances] == ["resnet50-1", "inception-v3-1"]
    assert second.services["resnet50"].waiting > 0, "nothing serves before the launch time is over"
    assert len(last.services["resnet50"].sent) == 8
    busy = {one.service: one.busy for one in last.instances}
    stretch = ASSUMED.stretch(("resnet50", 8), (("inception-v3", 8),))
    assert 40 * 0.016 <= busy["resnet50"] <= 1.1 * 40 * 0.016 * stretch


spans = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 20)), max_size=12)


@given(spans, st.sampled_from((0.25, 0.36, 1.0)))
def test_the_use_of_gpus_is_that_of_each_moment(drawn: list[tuple[int, int, int]], each: float) -> None:
    served = [(gpu, min(a, b), max(a, b)) for gpu, a, b in drawn]
    moments = sum(
        min(each * sum(gpu == on and begin <= at < end for on, begin, end in served), 1.0)
        for gpu in range(3)
        for at in range(20)
    )
    columns = np.array(served, np.float64).reshape(-1, 3).T
    assert gpu_use(columns[0].astype(np.int64), columns[1], columns[2], each) == pytest.approx(moments)


def test_a_gpu_is_counted_once_and_the_paper_counts_memory() -> None:
    played = play(scene(), ONE_EACH)
    lives = [(0, "v100-0/0", -30.0, 60.0), (1, "v100-0/0", 30.0, math.inf), (2, "t4-0/0", 45.0, 75.0)]
    instances = tuple(
        Instance(k, "", MODELS[k % 2], gpu.split("-")[0], gpu, begin, begin + 30.0, gone, gone)
        for k, gpu, begin, gone in lives
    )
    found = figures(replace(played, instances=instances))
    assert found.gpu_hours == {"v100": pytest.approx(90 / 3600), "t4": pytest.approx(30 / 3600)}
    assert found.dollars == pytest.approx((90 * 0.191 * 32 + 30 * 0.024 * 16) / 3600)
    assert found.paper == pytest.approx(3 * (60 + 60) * 0.191 + 3 * 30 * 0.024)
    alone = figures(replace(played, instances=instances, shares=False))
    assert alone.paper == pytest.approx(32 * (60 + 60) * 0.191 + 16 * 30 * 0.024)


@pytest.mark.parametrize(("made", "end"), [(production, 6000.0), (waves, 2500.0), (cost, 3000.0)])
def test_workloads_are_those_of_the_paper_and_of_their_seeds(made: Callable[..., Scene], end: float) -> None:
    one, other = made(ASSUMED, 1), made(ASSUMED, 2)
    assert one.workload == made(ASSUMED, 1).workload != other.workload
    assert one.workload.end == end
    for model, rates in one.workload.rates.items():
        assert len(rates) == math.ceil((end + 120) / STEP)
        assert max(rates) >= 4 * min(rates) * 0.99 or made is cost
        assert max(rates) == pytest.approx(max(other.workload.rates[model]))


def test_the_peaks_are_those_of_sections_6_1_to_6_3() -> None:
    found = production(ASSUMED)
    total = np.sum(list(found.workload.rates.values()), axis=0)
    assert (total.min(), total.max()) == (pytest.approx(200.0), pytest.approx(1000.0))
    assert total.argmax() * STEP - 120 >= 3500.0
    assert [len(made(ASSUMED).gpus) for made in (production, waves, cost)] == [16] * 3
    assert max(cost(ASSUMED).workload.rates["transformer"]) == pytest.approx(1.2 / 0.150)
    assert max(waves(ASSUMED).workload.rates["ssd-resnet50"]) == pytest.approx(0.9 * 6 / 0.175)
    assert waves(ASSUMED).most == 18
