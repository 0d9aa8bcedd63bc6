"""What a forwarded query costs the processor: ours, nginx and HAProxy before instances that take time, or none."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.kairos.paper.setting import counts_of
from benchmarks.reporting import Json, table, verdict
from benchmarks.router.balancers import STARTS, TITLES, answering, envoy, nginx
from benchmarks.router.closed import ClosedLoad, binary_body, json_body, play
from benchmarks.router.player import Address
from benchmarks.router.processes import ProgramMissingError, Running
from benchmarks.router.setups import ROUTER, Addresses, ScaledModel, Setup, workers

from harness.peers import PeersError

TITLE: Final = "Processor time of a forwarded query"
ANSWER: Final = (
    b'{"model_name":"rm2","model_version":"1","outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[0.5]}]}'
)
EQUAL: Final = "584 B, 30 waiting, equal rate"
NGINX_SHARE: Final = {EQUAL: 0.33, "584 B, 30 waiting": 0.33, "584 B, 1,000 waiting": 0.2, "600 kB": 0.6}
"""Forwarded queries for each processor second, beside nginx's."""
GATEWAY: Final = 150.0
"""Of Envoy and front together [us]."""
MODEL: Final = ScaledModel("RM2", 1.0)
INSTANCES: Final = counts_of(1, 0, 13, 0)


def loads(busy: Setup, idle: Setup, seconds: int) -> Iterator[ClosedLoad]:
    """14 queries are served, and the rest of the connections wait. busy: its instances take time; idle: they do not."""
    path = f"/v2/models/{idle.target.model}/infer"
    small = json_body(10, 584)
    large, binary = binary_body(602_112)
    for name, setup, connections in zip(NGINX_SHARE, (busy, idle, idle, idle), (44, 44, 1014, 8), strict=True):
        headers = {"hetserve-service": setup.target.service, "content-type": "application/json"}
        headers |= binary if connections == 8 else {}
        yield ClosedLoad(name, connections, path, headers, large if connections == 8 else small, seconds)


def measure(quick: bool) -> Json:
    rounds, seconds = (2, 1) if quick else (7, 2)
    figures: dict[str, dict[str, list[float]]] = {}
    rates: dict[str, dict[str, list[float]]] = {}
    missing, refused = list[str](), 0
    with tempfile.TemporaryDirectory(prefix="bench-router-") as name, ExitStack() as stack:
        folder, addresses = Path(name), Addresses()
        balancers = ("nginx", "haproxy", "router")
        busy = {each: Setup(each, MODEL, INSTANCES, addresses, tag="busy") for each in balancers}
        idle = {each: Setup(each, MODEL, INSTANCES, addresses) for each in balancers}
        places = [one.address for setup in idle.values() for one in setup.instances]
        stack.enter_context(nginx(folder, "instances", answering(ANSWER, places), places[:1]))
        stack.enter_context(workers(folder, list(busy.values())))
        proxies: dict[str, tuple[tuple[Address, Address], Callable[[], float]]] = {}
        for balancer in balancers:
            fronts = busy[balancer].front, idle[balancer].front
            try:
                running: Running = stack.enter_context(STARTS[balancer](folder, [busy[balancer], idle[balancer]]))
                proxies[balancer] = fronts, lambda running=running: running.cpu  # type: ignore[misc]
            except ProgramMissingError as error:
                missing.append(str(error))
        behind = proxies["router"][1]
        try:
            front = addresses.next()
            gateway: Running = stack.enter_context(envoy(folder, "gateway", [front], [[(ROUTER, 1)]]))
            proxies["envoy+router"] = (front, front), lambda: gateway.cpu + behind()
        except PeersError as error:
            missing.append(str(error))
        for number in range(-1, rounds):
            print(f"  round {number + 1} of {rounds}", end="\r", flush=True)
            for load in loads(busy["router"], idle["router"], seconds if number >= 0 else 1):
                for proxy, (fronts, cpu) in proxies.items():
                    if proxy == "envoy+router" and load.connections > 1000:
                        continue  # has no goal
                    found = play(folder, load, fronts[load.name != EQUAL], cpu)
                    if number >= 0:
                        figures.setdefault(load.name, {}).setdefault(proxy, []).append(found.cpu)
                        rates.setdefault(load.name, {}).setdefault(proxy, []).append(found.queries / load.seconds)
                        refused += found.refused
    return {"rounds": rounds, "cpu": figures, "rates": rates, "missing": missing, "refused": refused}


def describe(data: Json) -> str:
    titles = {**TITLES, "router": "ours", "envoy+router": "Envoy, then ours"}
    rows = []
    for load, cpu in data["cpu"].items():
        medians = {proxy: statistics.median(taken) for proxy, taken in cpu.items()}
        for proxy, median in medians.items():
            spread = f"{min(cpu[proxy]):.0f}-{max(cpu[proxy]):.0f}"
            share = f"{medians['nginx'] / median:.2f}" if "nginx" in medians else "nginx is missing"
            rate = f"{statistics.median(data['rates'][load][proxy]):,.0f}"
            rows.append((load, titles[proxy], f"{median:.0f} [{spread}]", rate, share, judged(load, proxy, medians)))
    head = ("query", "proxy", "us a query, median [range]", "a second", "beside nginx, a processor second", "goal")
    text = (
        f"User and system time of the proxy's own processes, from /proc, over the queries that it forwarded, in "
        f"{data['rounds']} rounds in turn. wrk keeps 44, 1,014 and 8 connections busy, to 14 instances. Ours runs "
        "`hetserve`, all limits on; nginx is `least_conn`, HAProxy has `maxconn 1` and a queue; all have one thread. "
        f"{data['refused']} queries were refused or failed.\n\n"
        "*Equal rate*: reference workers take 5 to 6 ms a query, so all proxies carry about as many, and each wakes "
        "peers that sleep. In the other rows instances answer at once, and a proxy works as much as it can. A fast one "
        "then finds its peers awake and much to read at each turn; a slow one pays for waking them.\n\n"
        + table(head, rows)
    )
    return text + "".join(f"\nNot measured: {each}\n" for each in data["missing"])


def judged(load: str, proxy: str, medians: dict[str, float]) -> str:
    """The goal of a figure, and whether it is held."""
    if proxy == "router" and "nginx" in medians:
        goal = NGINX_SHARE[load]
        return f">= {goal:g} of nginx's: {verdict(medians['nginx'] / medians['router'] >= goal)}"
    if proxy == "envoy+router" and load in list(NGINX_SHARE)[:2]:
        return f"<= {GATEWAY:g} us together: {verdict(medians[proxy] <= GATEWAY)}"
    return ""
