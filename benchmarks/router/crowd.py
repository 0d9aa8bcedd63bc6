"""A hundred services in one router: its memory, what it takes while nobody asks, what a flood does to the others."""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.kairos.paper.setting import MODELS, counts_of
from benchmarks.reporting import Json, table, verdict
from benchmarks.router.balancers import router
from benchmarks.router.closed import ClosedLoad, json_body, play
from benchmarks.router.player import Play, planned, runner
from benchmarks.router.processes import ProgramMissingError, program
from benchmarks.router.setups import ROUTER, Addresses, ScaledModel, Setup, workers
from benchmarks.router.simulated import allowable_rate, on_the_wire

TITLE: Final = "A crowd of services, and one that floods"
SERVICES: Final = 100
MEMORY: Final = 300.0
"""MiB"""
IDLE: Final = 0.05
"""Processor seconds a second."""
FLOODED: Final = 2.0
"""By how much the 99th percentile of the others may grow."""
_SLO: Final = 0.35
_LOAD: Final = 0.5
_OTHERS: Final = 10
"""Services that are asked while another one floods."""


def crowd(number: int) -> list[Setup]:
    """Of ten instances each; the models in turn."""
    addresses = Addresses()
    models = [ScaledModel.with_slo(model, _SLO) for model in MODELS]
    return [
        Setup("router", models[k % len(models)], counts_of(2, 0, 8, 0), addresses, tag=f"{k}", most_waiting=None)
        for k in range(number)
    ]


def measure(quick: bool) -> Json:
    setups = crowd(SERVICES)
    asked = [setup for setup in setups if setup.model.name == "RM2"][: _OTHERS + 1]
    seconds = 3.0 if quick else 20.0
    with tempfile.TemporaryDirectory(prefix="bench-router-") as name, ExitStack() as stack:
        folder = Path(name)
        stack.enter_context(workers(folder, setups))
        running = stack.enter_context(router(folder, setups))
        with runner() as loop:
            loop.run(_ask_all(setups))
        time.sleep(1.0)
        before = running.cpu
        time.sleep(seconds)
        idle = (running.cpu - before) / seconds
        data: Json = {"services": len(setups), "instances": sum(len(each.instances) for each in setups)}
        data |= {"idle": idle, "idleSeconds": seconds, "resident": running.resident}
        try:
            program("wrk")
            data["flood"] = _flood(folder, asked, quick)
        except ProgramMissingError as error:
            data["missing"] = str(error)
        data["residentAfterwards"] = running.resident
    return data


async def _ask_all(setups: list[Setup]) -> None:
    """Twenty queries of each service, so that every instance has been asked."""
    await asyncio.gather(
        *(Play(each.target, planned([0.01 * k for k in range(20)], [10] * 20)).run() for each in setups)
    )


def _flood(folder: Path, setups: list[Setup], quick: bool) -> Json:
    """The others' latencies without and with a service that is asked as fast as the router answers, rounds in turn."""
    flooded, others = setups[0], setups[1:]
    rate, rounds, seconds = _LOAD * allowable_rate(others[0], 2_000), (1 if quick else 3), (5 if quick else 10)
    queries, found = int(rate * seconds), dict[str, list[float]](calm=[], flood=[])
    refused = 0
    for _ in range(rounds):
        for kind, taken in found.items():
            if kind == "flood":
                thread, counts = _flooding(folder, flooded, seconds)
            with runner() as loop:
                latencies = loop.run(_latencies(others, queries, rate))
            if kind == "flood":
                thread.join()
                refused += sum(counts)
            taken.append(float(np.quantile(latencies, 0.99)))
    return {"p99": found, "refused": refused, "others": len(others), "rate": rate, "slo": _SLO}


def _flooding(folder: Path, setup: Setup, seconds: int) -> tuple[threading.Thread, list[int]]:
    """Runs wrk beside the caller. The list gets the queries that were refused."""
    headers = {"hetserve-service": setup.target.service, "content-type": "application/json"}
    load = ClosedLoad("flood", 256, f"/v2/models/{setup.target.model}/infer", headers, json_body(10, 584), seconds)
    counts: list[int] = []

    def flood() -> None:
        counts.append(play(folder, load, ROUTER, lambda: 0.0).refused)

    thread = threading.Thread(target=flood)
    thread.start()
    return thread, counts


async def _latencies(setups: list[Setup], queries: int, rate: float) -> list[float]:
    plays = [Play(each.target, on_the_wire(each, queries, rate)) for each in setups]
    await asyncio.gather(*(each.run() for each in plays))
    return [query.latency for each in plays for query in each.queries]


def describe(data: Json) -> str:
    rows = [
        (
            f"resident memory, {data['services']} services, {data['instances']:,} instances",
            f"{data['resident']:.0f} MiB; {data['residentAfterwards']:.0f} at the end",
            f"< {MEMORY:g} MiB: {verdict(data['residentAfterwards'] < MEMORY)}",
        ),
        (
            f"processor time while nobody asks, over {data['idleSeconds']:g} s",
            f"{data['idle']:.3f} of a core",
            f"< {IDLE:g}: {verdict(data['idle'] < IDLE)}",
        ),
    ]
    if "flood" in data:
        flood = data["flood"]
        calm, flooded = (float(np.median(flood["p99"][kind])) for kind in ("calm", "flood"))
        rows.append(
            (
                f"p99 of {flood['others']} services at half of their allowable rates, while another one floods",
                f"{1e3 * flooded:.0f} ms, without {1e3 * calm:.0f} ms",
                f"<= {FLOODED:g} times: {verdict(flooded <= FLOODED * calm)}",
            )
        )
    text = (
        f"One router with files; each service has 2 g4dn.xlarge, 8 r5n.large and an SLO of {1e3 * _SLO:g} ms. All of "
        "them have been asked. The flood keeps 256 connections busy with queries of one service, of which the "
        f"router refuses most (429: {data.get('flood', {}).get('refused', 0):,}).\n\n"
    )
    return (
        text
        + table(("what", "measured", "goal"), rows)
        + (f"\nNot measured: {data['missing']}\n" if "missing" in data else "")
    )
