"""Late shares on the wire beside the simulator's of the same queries, and what the wire adds to each."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from benchmarks.kairos.paper.setting import MODELS, counts_of
from benchmarks.reporting import Json, table, verdict
from benchmarks.router.balancers import router
from benchmarks.router.player import Play, runner
from benchmarks.router.setups import SEED, Addresses, ScaledModel, Setup, served_by, workers
from benchmarks.router.simulated import allowable_rate, on_the_wire, simulated

from hetserve_worker.service_times import ServiceTimes

TITLE: Final = "Wire against simulator"
POLICIES: Final = ("kairos", "hetserve")
LOADS: Final = {0.95: 0.003, 1.05: 0.01}
"""Of the allowable rate, and by how much the late share may differ there."""
SHARES: Final = 0.01
OVERHEAD: Final = 0.003
"""Of the SLO."""
SLO: Final = 0.6
"""To which all models are stretched [s]."""
_COUNTS: Final = {"MT-WND": counts_of(2, 0, 9, 0), "DIEN": counts_of(2, 0, 9, 0)}
_QUERIES: Final = 5000


def measure(quick: bool) -> Json:
    queries, addresses = (300 if quick else _QUERIES), Addresses()
    setups = [
        Setup("router", ScaledModel.with_slo(model, SLO), _COUNTS.get(model, counts_of(1, 0, 13, 0)), addresses, policy)
        for model in MODELS
        for policy in POLICIES
    ]
    rates = [allowable_rate(setup, 2_000 if quick else 50_000) for setup in setups]
    rows: list[Json] = []
    with tempfile.TemporaryDirectory(prefix="bench-router-") as name:
        folder = Path(name)
        with workers(folder, setups), router(folder, setups):
            for load in LOADS:
                longest = max(queries / (load * rate) for rate in rates)
                print(f"  {len(setups)} services at {load:g} of their allowable rates, {longest:.0f} s", flush=True)
                with runner() as loop:
                    plays = loop.run(_play(setups, [load * rate for rate in rates], queries))
                rows += [
                    _row(setup, load, load * rate, play) for setup, rate, play in zip(setups, rates, plays, strict=True)
                ]
    return {"queries": queries, "slo": SLO, "runs": rows}


async def _play(setups: list[Setup], rates: list[float], queries: int) -> list[Play]:
    plays = [
        Play(setup.target, on_the_wire(setup, queries, rate), setup.model.slo)
        for setup, rate in zip(setups, rates, strict=True)
    ]
    await asyncio.gather(*(play.run() for play in plays))
    return plays


def _row(setup: Setup, load: float, rate: float, play: Play) -> Json:
    told = simulated(setup, len(play.queries), rate)
    return {
        "model": setup.model.name,
        "policy": setup.policy,
        "load": load,
        "rate": rate,
        "late": play.late_share,
        "simulatedLate": told.late,
        "byType": served_by([query.instance for query in play.queries], setup),
        "simulatedByType": told.by_type,
        "overhead": overhead(setup, play) / setup.model.slo,
        "failed": sum(query.status != 200 for query in play.queries),
    }


def overhead(setup: Setup, play: Play) -> float:
    """What the wire adds to a query: all of its latency but its wait in the queue and its own time, the mean [s]."""
    profiles = setup.model.profiles
    times = {kind: ServiceTimes(profiles[kind], SEED) for kind, _ in setup.counts}
    kind_of = {one.name: one.type for one in setup.instances}
    added = [
        query.latency - query.queue - times[kind_of[query.instance]].seconds(str(number), query.items)
        for number, query in enumerate(play.queries)
        if query.status == 200
    ]
    return float(np.mean(added))


def gap_of_types(row: Json) -> float:
    """Largest difference of the shares by type."""
    wire, told = row["byType"], row["simulatedByType"]
    return max(abs(float(wire.get(kind, 0.0)) - float(told.get(kind, 0.0))) for kind in wire.keys() | told.keys())


def describe(data: Json) -> str:
    rows = []
    for row in data["runs"]:
        gap, types, allowed = abs(row["late"] - row["simulatedLate"]), gap_of_types(row), LOADS[row["load"]]
        rows.append(
            (
                row["model"],
                row["policy"],
                f"{row['load']:g}",
                f"{row['late']:.2%} / {row['simulatedLate']:.2%}",
                f"{100 * gap:.2f} (goal {100 * allowed:g}): {verdict(gap <= allowed)}",
                f"{100 * types:.2f}: {verdict(types <= SHARES)}",
                f"{row['overhead']:.2%}: {verdict(row['overhead'] < OVERHEAD)}",
            )
        )
    failed = sum(row["failed"] for row in data["runs"])
    head = ("model", "policy", "load", "late, wire / simulator", "apart [points]", "shares by type, apart", "added")
    return (
        f"{data['queries']:,} recorded queries of each model, sent when they were recorded, at loads as shares of the "
        f"simulator's allowable rate; latencies are stretched so that every SLO is {data['slo']:g} s. All services are "
        "played at once, by one router. Goals: shares by type within 1 point; the wire adds less than 0.3 % of the SLO "
        f"to a query, on average. {failed} queries were not answered.\n\n" + table(head, rows)
    )
