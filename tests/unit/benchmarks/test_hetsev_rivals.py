"""The controllers that hetserve is compared with do what they are said to do, and none beats the bound."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from benchmarks.hetsev.assumptions import Assumptions
from benchmarks.hetsev.assumptions import given as assumed
from benchmarks.hetsev.cluster import play, service_of
from benchmarks.hetsev.measures import figures
from benchmarks.hetsev.policy import Decided, InstanceSeen, Seen, ServiceSeen
from benchmarks.hetsev.rivals import exclusive, kubernetes, published
from benchmarks.hetsev.rivals.clairvoyant import bound, busy_sets
from benchmarks.hetsev.rivals.kinds import RIVALS, VARIANTS
from benchmarks.hetsev.rivals.pods import ANY_TYPE, Deployments, Room, WholeGpus
from benchmarks.hetsev.rivals.round_robin import round_robin
from benchmarks.hetsev.scene import Scene, Workload

from hetserve.serving.dispatcher import Dispatcher

ASSUMED = assumed()
MODELS = ("resnet50", "transformer")
TYPES = ("v100", "t4")


def scene(*rates: float, most: int | None = None, assumptions: Assumptions = ASSUMED) -> Scene:
    """ResNet50 and Transformer at these rates, a minute of warm-up and three that count."""
    return Scene(assumptions, Workload(-60.0, 180.0, dict(zip(MODELS, ((r,) for r in rates), strict=True)), True), most)


def seen(where: Scene, now: float, rates: dict[str, float], *instances: InstanceSeen) -> Seen:
    services = {m: ServiceSeen(m, 1.0, (rate,), (rate,), 0, math.nan, 0.0) for m, rate in rates.items()}
    return Seen(now, services, instances, where.gpus)


def instance(number: int, service: str, gpu: str, *, ready: float = 0.0, busy: float = 0.0) -> InstanceSeen:
    return InstanceSeen(
        id=number,
        name="",
        service=service,
        type=gpu.split("-", maxsplit=1)[0],
        gpu=gpu,
        launched=ready - 30.0,
        ready=ready,
        leaving=False,
        busy=busy,
    )


def after(decided: Decided, *instances: InstanceSeen, now: float, busy: float = 0.5) -> tuple[InstanceSeen, ...]:
    """What a cluster holds half a minute later."""
    first = max((one.id for one in instances), default=-1) + 1
    started = (instance(k, one.service, one.gpu, ready=now, busy=busy) for k, one in enumerate(decided.start, first))
    return (*(one for one in instances if one.id not in decided.stop), *started)


def test_pods_wait_in_the_order_in_which_they_were_made() -> None:
    where = scene(1.0, 1.0)
    pods = Deployments(where, WholeGpus(where, "test"))
    first = pods.follow(seen(where, 0.0, {}), {("resnet50", ANY_TYPE): 12, ("transformer", ANY_TYPE): 12})

    assert [one.service for one in first.start] == ["resnet50"] * 12 + ["transformer"] * 4
    assert pods.waiting("transformer") == 8


def test_pods_that_wait_go_before_those_that_run_and_the_newest_of_these_before_others() -> None:
    where = scene(1.0, 1.0)
    pods = Deployments(where, lambda *_: None)
    some = [instance(k, "resnet50", f"t4-0/{k}", ready=10.0 * k) for k in range(2)]
    pods.follow(seen(where, 60.0, {}, *some), {("resnet50", ANY_TYPE): 3})
    kept = pods.follow(seen(where, 60.0, {}, *some), {("resnet50", ANY_TYPE): 2})
    fewer = pods.follow(seen(where, 60.0, {}, *some), {("resnet50", ANY_TYPE): 1})

    assert (kept.stop, fewer.stop, pods.waiting("resnet50")) == ((), (1,), 0)


def test_kubernetes_gives_each_instance_a_gpu_of_a_random_type() -> None:
    where = scene(300.0, 20.0)
    started = kubernetes.Kubernetes(where).decide(seen(where, -60.0, dict.fromkeys(MODELS, 0.0))).start

    assert len({one.gpu for one in started}) == len(started)
    room: Room = {"v100-0/0": [], "t4-0/0": []}
    draws = {WholeGpus(replace(where, seed=k), "x")((MODELS[0], ANY_TYPE), room) for k in range(20)}
    assert draws == {"v100-0/0", "t4-0/0"}


def test_the_integer_program_takes_the_least_money_or_the_fewest_gpus() -> None:
    loads = {"resnet50": 40.0, "transformer": 2.0}
    money = exclusive.least_cost(scene(1.0, 1.0), exclusive.Setting(0.8), loads)
    count = exclusive.least_cost(scene(1.0, 1.0), exclusive.Setting(0.8, by_count=True), loads)

    # 40 / 0.8 = 50 queries/s are 1.7 T4s or 0.8 V100s.
    assert money == {(m, t): 0 if t == "v100" else n for m, n in (("resnet50", 2), ("transformer", 1)) for t in TYPES}
    assert sum(count.values()) == 2


def test_the_integer_program_shares_out_what_there_is_where_the_load_is_too_much() -> None:
    counts = exclusive.least_cost(scene(1.0, 1.0), exclusive.Setting(), {"resnet50": 900.0, "transformer": 60.0})

    assert sum(counts.values()) == 16
    assert all(sum(n for (service, _), n in counts.items() if service == model) >= 1 for model in MODELS)


def test_hetsev_scales_out_only_after_some_time_of_saturation_and_to_the_cheapest_type() -> None:
    where = scene(1.0, 1.0)
    ours = published.Published(where, published.Setting(patience=30.0))
    idle, busy = {"resnet50": 1.0, "transformer": 0.1}, {"resnet50": 28.0, "transformer": 0.1}
    here = after(ours.decide(seen(where, -60.0, idle)), now=-30.0)
    decided = [ours.decide(seen(where, at, busy, *here)) for at in (0.0, 15.0, 30.0)]

    assert sorted(one.type for one in here) == ["t4", "t4"]
    assert [[(one.service, one.gpu[:2]) for one in each.start] for each in decided] == [[], [], [("resnet50", "t4")]]


def test_hetsev_never_puts_a_model_twice_on_a_gpu_and_prefers_idle_ones() -> None:
    where = scene(1.0, 1.0)
    choose = published.SharedGpus(where)
    room: Room = {gpu.name: [] for gpu in where.gpus}
    room |= {gpu.name: ["transformer"] for gpu in where.gpus if gpu.type == "t4" and gpu.name != "t4-3/1"}

    assert choose(("resnet50", "t4"), room) == "t4-3/1"
    room["t4-3/1"] = ["resnet50"]
    assert choose(("resnet50", "t4"), room) not in {None, "t4-3/1"}
    assert choose(("transformer", "t4"), room) == "t4-3/1"
    assert choose.room_for("resnet50", "t4", room) == 7


def test_hetsev_stops_one_instance_at_a_time_after_its_cool_down() -> None:
    where = scene(1.0, 1.0)
    ours = published.Published(where, published.Setting(cool_down=60.0))
    busy, idle = {"resnet50": 80.0, "transformer": 0.1}, {"resnet50": 1.0, "transformer": 0.1}
    here = after(ours.decide(seen(where, -60.0, busy)), now=-30.0)
    stops = []
    for at in range(0, 150, 15):
        decided = ours.decide(seen(where, float(at), idle, *here))
        here = after(decided, *here, now=float(at))
        stops.append(len(decided.stop))

    assert stops == [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]


def test_hetsev_swaps_nothing_for_a_faster_type_where_no_more_instances_may_be() -> None:
    where = scene(1.0, 1.0, most=4)
    ours = published.Published(where, published.Setting(patience=0.0))
    load, high = {"resnet50": 60.0, "transformer": 0.1}, {"resnet50": 900.0, "transformer": 0.1}
    here = after(ours.decide(seen(where, -60.0, load)), now=-30.0)
    decided = ours.decide(seen(where, 0.0, high, *here))

    assert sorted(one.type for one in here) == ["t4"] * 4
    assert (decided.start, decided.stop) == ((), ())


def test_round_robin_goes_to_the_next_instance_whether_it_is_idle_or_not() -> None:
    dispatcher = Dispatcher(service_of(scene(1.0, 1.0), "resnet50", round_robin()))
    for number in range(2):
        dispatcher.joined(number, "v100", 0.0)
    offered = [dispatcher.offer(query, 8, 1.0, 0.0).sends for query in range(4)]
    answered = [dispatcher.answered(1, 0.1).sends, dispatcher.answered(1, 0.2).sends, dispatcher.answered(0, 0.3).sends]

    assert offered == [[(0, 0)], [(1, 1)], [], []]
    assert answered == [[(3, 1)], [], [(2, 0)]]


@pytest.mark.parametrize("name", [*RIVALS, *VARIANTS])
def test_no_controller_beats_the_clairvoyant_bound(name: str) -> None:
    where, rival = scene(70.0, 5.0), {**RIVALS, **VARIANTS}[name]
    found, least = figures(play(where, rival.make(rival.settings[0], where))), bound(where)
    served = found.sent / 180.0 / 75.0  # clients that wait send less

    assert least.short == 0
    assert found.all_gpu_hours >= served * least.gpu_hours - 1e-9
    assert found.dollars >= served * least.dollars - 1e-9
    assert found.paper >= served * least.memory - 1e-9


def test_the_bound_is_exact_where_one_model_fills_gpus_alone() -> None:
    alone = replace(ASSUMED, interference=dict.fromkeys(ASSUMED.interference, 10.0))
    least = bound(scene(120.0, 0.0, assumptions=alone))

    # 120 queries/s x 16 ms are 1.92 V100s; 120 x 34 ms 4.08 T4s.
    assert least.gpu_hours == pytest.approx(2 * 180 / 3600)
    assert least.dollars == pytest.approx(5 * ASSUMED.price("t4") / 1e6 * 180 / 3600)


def test_a_busy_set_is_left_out_only_where_others_replace_it() -> None:
    found = list(busy_sets(ASSUMED, MODELS))
    whole = [one for one in found if one.type == "t4" and sum(one.members.values()) == 2]

    assert {tuple(sorted(one.members)) for one in found if sum(one.members.values()) == 1} == {(m,) for m in MODELS}
    assert any(len(one.members) == 2 for one in whole)
    for one in found:
        seconds = {m: rate * ASSUMED.models[m].latency[one.type] for m, rate in one.rates.items()}
        assert sum(ASSUMED.models[m].share * spent for m, spent in seconds.items()) <= 1 + 1e-9
