"""What the router, and Envoy before it, add to the latency of a query at a steady rate."""

from __future__ import annotations

import statistics
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.reporting import Json, table, verdict
from benchmarks.router.balancers import answering, envoy, nginx, router
from benchmarks.router.forward import ANSWER, INSTANCES, MODEL
from benchmarks.router.player import Address, Play, Target, planned, runner
from benchmarks.router.setups import ROUTER, SEED, Addresses, Setup

from harness.peers import PeersError

TITLE: Final = "Latency added"
RATE: Final = 2000.0
GOAL: Final = 2e-3
"""Of the 99th percentile that is added [s]."""
_PADDING: Final = 584 - 73
_TITLES: Final = {"direct": "an instance, directly", "router": "ours", "envoy+router": "Envoy, then ours"}


def measure(quick: bool) -> Json:
    rounds, seconds = (2, 1.0) if quick else (9, 3.0)
    figures: dict[str, list[tuple[float, float, float]]] = {}
    missing = []
    with tempfile.TemporaryDirectory(prefix="bench-router-") as name, ExitStack() as stack:
        folder, addresses = Path(name), Addresses()
        setup = Setup("router", MODEL, INSTANCES, addresses)
        places = [one.address for one in setup.instances]
        stack.enter_context(nginx(folder, "instances", answering(ANSWER, places), places[:1]))
        stack.enter_context(router(folder, [setup]))
        asked: dict[str, Address] = {"direct": places[0], "router": ROUTER}
        try:
            front = addresses.next()
            stack.enter_context(envoy(folder, "gateway", [front], [[(ROUTER, 1)]]))
            asked["envoy+router"] = front
        except PeersError as error:
            missing.append(str(error))
        for number in range(-1, rounds):
            print(f"  round {number + 1} of {rounds}", end="\r", flush=True)
            for who, address in asked.items():
                found = _round(Target(address, MODEL.label, setup.target.service, _PADDING), seconds, number)
                if number >= 0:
                    figures.setdefault(who, []).append(found)
    return {"rounds": rounds, "rate": RATE, "latency": figures, "missing": missing}


def _round(target: Target, seconds: float, number: int) -> tuple[float, float, float]:
    """Median and 99th percentile of the latency [s], and the rate at which queries were answered [queries/s]."""
    rng = np.random.default_rng(SEED + number + 1)
    times = np.cumsum(rng.standard_exponential(int(RATE * seconds))) / RATE
    play = Play(target, planned(times.tolist(), [10] * len(times)))
    with runner() as loop:
        loop.run(play.run())
    latencies = np.array([query.latency for query in play.queries])
    ended = max(query.arrival + query.latency for query in play.queries)
    return float(np.quantile(latencies, 0.5)), float(np.quantile(latencies, 0.99)), len(times) / ended


def describe(data: Json) -> str:
    rows = []
    direct = data["latency"]["direct"]
    for who, figures in data["latency"].items():
        p50, p99, rate = (statistics.median(column) for column in zip(*figures, strict=True))
        added = [statistics.median(a[k] - b[k] for a, b in zip(figures, direct, strict=True)) for k in (0, 1)]
        more = "" if who == "direct" else f"{1e3 * added[0]:.2f} / {1e3 * added[1]:.2f}"
        goal = f"p99 < {1e3 * GOAL:g} ms more: {verdict(added[1] < GOAL)}" if more else ""
        rows.append((_TITLES[who], f"{rate:,.0f}", f"{1e3 * p50:.2f} / {1e3 * p99:.2f}", more, goal))
    head = ("asked", "answered a second", "p50 / p99 [ms]", "added [ms]", "goal")
    text = (
        f"584-byte queries at {data['rate']:,.0f} a second, a Poisson process. Latency counts from when a query was "
        "planned, whatever the player is late. 14 instances answer at once. Medians of "
        f"{data['rounds']} rounds in turn; what is added is the median of the differences within a round.\n\n"
        + table(head, rows)
    )
    return text + "".join(f"\nNot measured: {each}\n" for each in data["missing"])
