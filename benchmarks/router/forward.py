"""What a forwarded query costs the processor: ours, nginx and HAProxy before instances that answer at once."""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.kairos.paper.setting import counts_of
from benchmarks.reporting import Json, table, verdict
from benchmarks.router.balancers import STARTS, TITLES, answering, envoy, nginx
from benchmarks.router.closed import ClosedLoad, binary_body, json_body, play
from benchmarks.router.player import Address
from benchmarks.router.processes import ProgramMissingError, Running
from benchmarks.router.setups import ROUTER, Addresses, ScaledModel, Setup

from harness.peers import PeersError

TITLE: Final = "Processor time of a forwarded query"
ANSWER: Final = (
    b'{"model_name":"rm2","model_version":"1","outputs":[{"name":"y","shape":[1],"datatype":"FP32","data":[0.5]}]}'
)
NGINX_SHARE: Final = {"584 B, 30 waiting": 0.33, "584 B, 1,000 waiting": 0.2, "600 kB": 0.6}
"""Forwarded queries for each processor second, beside nginx's."""
GATEWAY: Final = 150.0
"""Of Envoy and front together [us]."""
MODEL: Final = ScaledModel("RM2", 1.0)
INSTANCES: Final = counts_of(1, 0, 13, 0)


def loads(setup: Setup, seconds: int) -> list[ClosedLoad]:
    """14 queries are served, and the rest of the connections wait."""
    headers = {"hetserve-service": setup.target.service, "content-type": "application/json"}
    path = f"/v2/models/{setup.target.model}/infer"
    small = json_body(10, 584)
    large, binary = binary_body(602_112)
    names = list(NGINX_SHARE)
    return [
        ClosedLoad(names[0], 44, path, headers, small, seconds),
        ClosedLoad(names[1], 1014, path, headers, small, seconds),
        ClosedLoad(names[2], 8, path, {**headers, **binary}, large, seconds),
    ]


def measure(quick: bool) -> Json:
    rounds, seconds = (2, 1) if quick else (7, 2)
    figures: dict[str, dict[str, list[float]]] = {}
    missing, refused = list[str](), 0
    with tempfile.TemporaryDirectory(prefix="bench-router-") as name, ExitStack() as stack:
        folder, addresses = Path(name), Addresses()
        setups = {each: Setup(each, MODEL, INSTANCES, addresses) for each in ("nginx", "haproxy", "router")}
        places = [one.address for setup in setups.values() for one in setup.instances]
        stack.enter_context(nginx(folder, "instances", answering(ANSWER, places), places[:1]))
        proxies: dict[str, tuple[Address, Callable[[], float]]] = {}
        for balancer, setup in setups.items():
            try:
                running: Running = stack.enter_context(STARTS[balancer](folder, [setup]))
                proxies[balancer] = setup.front, lambda running=running: running.cpu  # type: ignore[misc]
            except ProgramMissingError as error:
                missing.append(str(error))
        behind = proxies["router"][1]
        try:
            front = addresses.next()
            gateway: Running = stack.enter_context(envoy(folder, "gateway", [front], [[(ROUTER, 1)]]))
            proxies["envoy+router"] = front, lambda: gateway.cpu + behind()
        except PeersError as error:
            missing.append(str(error))
        for number in range(-1, rounds):
            print(f"  round {number + 1} of {rounds}", end="\r", flush=True)
            for load in loads(setups["router"], seconds if number >= 0 else 1):
                for proxy, (address, cpu) in proxies.items():
                    if proxy == "envoy+router" and load.connections > 1000:
                        continue  # has no goal
                    found = play(folder, load, address, cpu)
                    if number >= 0:
                        figures.setdefault(load.name, {}).setdefault(proxy, []).append(found.cpu)
                        refused += found.refused
    return {"rounds": rounds, "cpu": figures, "missing": missing, "refused": refused}


def describe(data: Json) -> str:
    titles = {**TITLES, "router": "ours", "envoy+router": "Envoy, then ours"}
    rows = []
    for load, cpu in data["cpu"].items():
        medians = {proxy: statistics.median(taken) for proxy, taken in cpu.items()}
        for proxy, median in medians.items():
            spread = f"{min(cpu[proxy]):.0f}-{max(cpu[proxy]):.0f}"
            share = f"{medians['nginx'] / median:.2f}" if "nginx" in medians else "nginx is missing"
            rows.append((load, titles[proxy], f"{median:.0f} [{spread}]", share, judged(load, proxy, medians)))
    head = ("query", "proxy", "us a query, median [range]", "queries a second beside nginx", "goal")
    text = (
        f"User and system time of the proxy's own processes, from /proc, over the queries that it forwarded, in "
        f"{data['rounds']} rounds in turn. wrk keeps 44, 1,014 and 8 connections busy; 14 instances answer at once. "
        "Ours runs `hetserve`, all limits on; nginx is `least_conn`, HAProxy has `maxconn 1` and a queue; all have one "
        f"thread. {data['refused']} queries were refused or failed.\n\n" + table(head, rows)
    )
    return text + "".join(f"\nNot measured: {each}\n" for each in data["missing"])


def judged(load: str, proxy: str, medians: dict[str, float]) -> str:
    """The goal of a figure, and whether it is held."""
    if proxy == "router" and "nginx" in medians:
        goal = NGINX_SHARE[load]
        return f">= {goal:g} of nginx's: {verdict(medians['nginx'] / medians['router'] >= goal)}"
    if proxy == "envoy+router" and load == next(iter(NGINX_SHARE)):
        return f"<= {GATEWAY:g} us together: {verdict(medians[proxy] <= GATEWAY)}"
    return ""
