"""What computes the figures of the router's benchmark."""

from __future__ import annotations

import math
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from benchmarks.kairos.paper.setting import counts_of
from benchmarks.reporting import Json
from benchmarks.router import added, closed, crowd, forward, money, rpc, wire
from benchmarks.router.balancers import envoy_config, haproxy_config, nginx_servers
from benchmarks.router.player import Play, Target, planned
from benchmarks.router.setups import SEED, Addresses, ScaledModel, Setup, manifests_of, served_by
from benchmarks.router.simulated import on_the_wire, simulated

from hetserve_shell.http.server import HttpServer
from hetserve_shell.http.takers import Head, Replier
from hetserve_worker.service_times import ServiceTimes


class HeldAnswers:
    """Answers nothing until so many queries have come; then all."""

    limit = 4096

    def __init__(self, number: int) -> None:
        self.number, self.waiting, self.seen = number, list[Replier](), list[bytes]()

    def asked(self, head: Head) -> HeldAnswers:
        self.seen.append(head.get(b"x-request-id") + b"/" + head.get(b"hetserve-items"))
        return self

    def take(self, _body: bytes | bytearray, reply: Replier) -> None:
        self.waiting.append(reply)
        if len(self.waiting) == self.number:
            for each in self.waiting:
                each.answer(200, [(b"hetserve-instance", b"a"), (b"server-timing", b"queue;dur=2, service;dur=3")], b"")

    def gone(self) -> None:
        pass


@asynccontextmanager
async def target(answers: HeldAnswers) -> AsyncIterator[Target]:
    server, listener = HttpServer(answers), socket.create_server(("127.0.0.1", 0))
    await server.start(listener)
    try:
        yield Target(listener.getsockname()[:2], "m", "n/s")
    finally:
        await server.stop(0.0)


async def test_queries_are_sent_whatever_is_answered() -> None:
    answers = HeldAnswers(3)
    async with target(answers) as asked:
        play = Play(asked, planned([0.0, 0.0, 0.001], [7, 8, 9]), slo=60.0)
        await play.run()
    assert sorted(answers.seen) == [b"0/7", b"1/8", b"2/9"]
    assert play.late_share == 0.0
    assert {(query.instance, query.queue, query.service) for query in play.queries} == {("a", 0.002, 0.003)}
    assert all(0 < query.latency < math.inf for query in play.queries)


async def test_a_play_ends_once_too_many_are_late_for_certain() -> None:
    """Nobody answers; the third is due in an hour."""
    async with target(HeldAnswers(99)) as asked:
        play = Play(asked, planned([0.0, 0.0, 0.01, 3600.0], [1] * 4), slo=0.001, most_late=1)
        await play.run()
    assert play.stopped
    assert play.late_share == 1.0


@pytest.mark.parametrize("limit", [80.0, 99.0, 137.0, 400.0])
async def test_a_search_finds_the_highest_rate_that_holds(limit: float) -> None:
    async def passes(rate: float) -> bool:
        return rate <= limit

    found = await money.RateSearch(most=20).run(100.0, passes)
    assert limit / 1.03 <= found.rate <= limit < found.above


async def test_a_search_gives_up_far_below_where_it_began() -> None:
    async def never(_rate: float) -> bool:
        return False

    found = await money.RateSearch(step=1.5, most=20).run(100.0, never)
    assert (found.rate, round(found.above, 2), len(found.trials)) == (0.0, 29.63, 3)


def test_what_wrk_says_is_read() -> None:
    said = "  Socket errors: connect 1, read 2, write 0, timeout 4\n  3792 requests in 2.10s, 0.99MB read\n"
    assert closed.read(said) == (3792, 7)
    assert closed.read(said + "  Non-2xx or 3xx responses: 500\n") == (3792, 507)
    assert closed.read("unable to connect") == (0, 0)


def test_a_body_has_the_size_that_is_asked_for() -> None:
    assert len(closed.json_body(10, 584)) == 584
    body, headers = closed.binary_body(1000)
    assert len(body) == 1000 + int(headers["inference-header-content-length"])


def a_setup(balancer: str = "router", small: int = 0) -> Setup:
    return Setup(balancer, ScaledModel("RM2", 2.0), counts_of(1, 0, 2, 0), Addresses(), small=small)


@pytest.mark.data
def test_a_setup_has_the_instances_of_the_simulator_in_its_order() -> None:
    setup = a_setup()
    system = setup.model.system
    kinds = [system.types[kind] for kind in system.workers(dict(setup.counts)).tolist()]
    assert [one.type for one in setup.instances] == kinds
    assert [one.name for one in setup.instances] == sorted(one.name for one in setup.instances)
    assert len({one.address for one in setup.instances}) == 3
    assert setup.model.slo == pytest.approx(0.7)
    (service,) = (one for one in manifests_of([setup]) if one["kind"] == "InferenceService")
    assert f"{service['metadata']['namespace']}/{service['metadata']['name']}" == setup.target.service


@pytest.mark.data
def test_every_balancer_sends_to_every_instance() -> None:
    setup = a_setup("haproxy-two", small=250)
    places = [f"{one.address[0]}:{one.address[1]}" for one in setup.instances]
    two = haproxy_config([setup])
    assert [two.count(place) for place in places] == [1, 1, 1]
    large, _, rest = two.partition("backend b0-large\n")[2].partition("backend b0-all\n")
    assert [place in large for place in places] == [True, False, False]
    assert [place in rest for place in places] == [False, True, True]
    assert "gt 250" in two
    assert [nginx_servers([setup]).count(place) for place in places] == [1, 1, 1]
    behind = [(one.address, one.weight) for one in setup.instances]
    (cluster,) = envoy_config([setup.front], [behind])["static_resources"]["clusters"]
    assert len(cluster["load_assignment"]["endpoints"][0]["lb_endpoints"]) == 3


@pytest.mark.data
def test_what_the_wire_adds_is_what_neither_the_queue_nor_the_instance_took() -> None:
    setup = a_setup()
    play = Play(setup.target, on_the_wire(setup, 50, 5.0), setup.model.slo)
    times = {kind: ServiceTimes(setup.model.profiles[kind], SEED) for kind, _ in setup.counts}
    for number, query in enumerate(play.queries):
        one = setup.instances[number % 3]
        query.instance, query.status, query.queue = one.name, 200, 0.1
        query.latency = 0.1 + times[one.type].seconds(str(number), query.items) + 0.002
    assert wire.overhead(setup, play) == pytest.approx(0.002)
    assert served_by([query.instance for query in play.queries], setup) == {"g4dn.xlarge": 0.34, "r5n.large": 0.66}


@pytest.mark.data
def test_the_simulator_plays_the_same_queries() -> None:
    setup = a_setup()
    calm, busy = simulated(setup, 500, 1.0), simulated(setup, 500, 40.0)
    assert calm.late == 0.0 < busy.late
    assert sum(busy.by_type.values()) == pytest.approx(1.0)


def a_row(balancer: str, rate: float, *, equal: bool = False) -> Json:
    row = {"model": "RM2", "scale": 1.0, "balancer": balancer, "counts": "(1,0,13,0)", "equalInstances": equal}
    return row | {"queries": 1, "simulated": 100.0, "rate": rate, "failed": 110.0, "trials": []}


def test_the_best_rival_is_compared_at_equal_money_alone() -> None:
    rows = [a_row("router", 140.0), a_row("nginx", 60.0), a_row("haproxy", 70.0), a_row("haproxy-two", 120.0)]
    rows += [a_row("envoy", 0.0), a_row("nginx", 500.0, equal=True)]
    text = money.describe({"rows": rows, "missing": []})
    assert "HAProxy, one queue (maxconn 1) at (1,0,13,0) 70.0: 2.00 times as many (goal 1.7: held)" in text
    assert "120.0: 1.17 times as many (goal 1.2: **missed**)" in text
    assert "none (110.0 failed)" in text
    none = money.describe({"rows": [a_row("router", 0.0), a_row("nginx", 0.0)], "missing": []})
    assert "0.00 times as many (goal 1.7: **missed**)" in none


def test_shares_by_type_are_compared_at_the_type_that_differs_most() -> None:
    run = {"model": "RM2", "policy": "kairos", "load": 0.95, "rate": 1.0, "late": 0.008, "simulatedLate": 0.012}
    run |= {"byType": {"a": 0.5, "b": 0.5}, "simulatedByType": {"a": 0.52, "b": 0.47, "c": 0.01}}
    run |= {"overhead": 0.002, "failed": 0}
    assert wire.gap_of_types(run) == pytest.approx(0.03)
    text = wire.describe({"queries": 5, "slo": 0.5, "runs": [run]})
    assert "| 0.40 (goal 0.3): **missed** | 3.00: **missed** | 0.20%: held |" in text


def test_costs_are_judged_beside_nginx() -> None:
    cpu = {"nginx": [20.0], "haproxy": [25.0], "router": [50.0], "envoy+router": [151.0]}
    equal, few, many, _ = forward.NGINX_SHARE
    figures = {equal: cpu, few: cpu, many: {"router": [1.0]}}
    rates = {load: {proxy: [2e3 + figure[0]] for proxy, figure in each.items()} for load, each in figures.items()}
    text = forward.describe({"rounds": 1, "cpu": figures, "rates": rates, "missing": ["x"], "refused": 0})
    assert text.count("| ours | 50 [50-50] | 2,050 | 0.40 | >= 0.33 of nginx's: held |") == 2
    assert "<= 150 us together: **missed**" in text
    assert "nginx is missing" in text
    assert "Not measured: x" in text


def test_queries_by_grpc_are_judged_beside_a_bare_forwarder() -> None:
    text = rpc.describe({"rounds": 2, "failed": 0, "cpu": {"grpc.aio": [400.0, 600.0], "router": [400.0, 500.0]}})
    assert "| ours | 450 [400-500] | 0.90 | <= 0.85: **missed**; <= 450 us: held |" in text
    assert rpc.describe({"missing": "why"}) == "Not measured: why\n"


def test_added_latency_is_the_median_of_differences_within_a_round() -> None:
    figures = {
        "direct": [(1e-3, 2e-3, 2000.0), (1e-3, 9e-3, 2000.0)],
        "router": [(2e-3, 3e-3, 2000.0), (2e-3, 8e-3, 2000.0)],
    }
    text = added.describe({"rounds": 2, "rate": 2000.0, "latency": figures, "missing": []})
    assert "| 1.00 / 0.00 | p99 < 2 ms more: held |" in text


def test_a_flood_is_judged_by_the_latency_of_the_others() -> None:
    flood = {"p99": {"calm": [0.1, 0.1, 0.3], "flood": [0.15, 0.21, 0.9]}, "refused": 7, "others": 10, "rate": 1.0}
    data = {"services": 100, "instances": 1000, "idle": 0.01, "idleSeconds": 3.0, "resident": 250.0}
    text = crowd.describe(data | {"residentAfterwards": 301.0, "flood": flood})
    assert "210 ms, without 100 ms | <= 2 times: **missed**" in text
    assert "< 300 MiB: **missed**" in text
    assert "0.010 of a core | < 0.05: held" in text
