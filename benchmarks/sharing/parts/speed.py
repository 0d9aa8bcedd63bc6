"""Simulated queries/s on one core: services that share GPUs, beside one service alone in the same loop."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import numpy as np
from benchmarks.reporting import Json, table
from benchmarks.sharing.results import goals

from hetserve.demand import BatchMix
from hetserve.dispatch import Policy, make_policy
from hetserve.profiles import TableProfile
from hetserve.serving.services import ComputeUse, GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System
from hetserve.simulation.run import run_alone
from hetserve.simulation.workload import draw_workload
from testing.dispatching import table as profile_of

TITLE: Final = "Speed of the joint simulation"
GOAL = 100_000
BATCHES = (2, 4, 8, 16)
MIX = BatchMix.of((batch, 1.0) for batch in BATCHES)
SERVICES, INSTANCES, GPUS = 8, 4, 16
USE = ComputeUse(0.55, otherwise=0.07)
"""About ResNet50 in the notes on sharing: two on each GPU are slowed by a tenth."""


def a_system() -> System:
    """V100 16 ms and T4 34 ms at batch 8, growing with the square root of the batch; cv 5 %."""

    def profile(at_eight: float) -> TableProfile:
        return profile_of([at_eight * (batch / 8) ** 0.5 for batch in BATCHES], BATCHES, 0.05)

    return System.of({"v100": profile(0.016), "t4": profile(0.034)}, BATCHES, 0.2)


def joint(policy: Policy, load: float, queries: int) -> Callable[[], int]:
    """32 instances of 8 services, two on each of 16 GPUs, at a share of what they carry alone."""
    system = a_system()
    run = Session([Service(f"s{s}", system, policy, {"v100": USE, "t4": USE}) for s in range(SERVICES)])
    for s in range(SERVICES):
        for k in range(INSTANCES):
            run.join(GpuInstance(f"s{s}", ("v100", "t4")[k % 2], f"g{(s * INSTANCES + k) % GPUS}"))
        draw_workload(MIX, queries // SERVICES, s).offer_to(run, f"s{s}", load * carried(system))
    return lambda: len(run.until())


def alone(policy: Policy, load: float, queries: int) -> Callable[[], int]:
    """One service with as many instances as one of the joint run has."""
    system, work = a_system(), draw_workload(MIX, queries, 0)
    counts = {"v100": INSTANCES // 2, "t4": INSTANCES // 2}
    return lambda: len(run_alone(system, counts, policy, work, load * carried(system)).outcome().finish)


def carried(system: System) -> float:
    """Queries/s of a service's instances, always busy and without neighbours."""
    return float(INSTANCES / 2 * np.sum(1 / system.served.means.mean(axis=1)))


def speed(
    prepared: Callable[[Policy, float, int], Callable[[], int]], policy: Policy, load: float, queries: int
) -> float:
    """Best of three, in queries per second of processor time."""
    prepared(policy, load, 800)()
    best = 0.0
    for _ in range(3):
        run = prepared(policy, load, queries)
        start = time.process_time()
        done = run()
        best = max(best, done / (time.process_time() - start))
    return best


def measure(quick: bool) -> Json:
    queries = 20_000 if quick else 200_000
    rows = []
    for name in ("hetserve", "fcfs"):
        policy = make_policy(name)
        for load in (0.5, 0.75):
            together, single = (speed(way, policy, load, queries) for way in (joint, alone))
            rows.append({"policy": name, "load": load, "together": together, "alone": single})
    return {"rows": rows}


def describe(data: Json) -> str:
    rows = [
        (f"`{row['policy']}`", f"{row['load']:.0%}", f"{row['together']:,.0f}", f"{row['alone']:,.0f}")
        for row in data["rows"]
    ]
    least = min(row["together"] for row in data["rows"])
    return "\n".join(
        [
            "Queries/s of processor time, best of three: 8 services with 4 instances each on 16 GPUs, beside one "
            "service\nwith 4 instances, alone on their GPUs, in the same loop. Loads are of what they carry alone.\n",
            table(("policy", "load", "32 instances on 16 GPUs", "4 instances alone"), rows),
            goals([("queries/s with 32 instances on 16 GPUs, least", f">= {GOAL:,}", f"{least:,.0f}", least >= GOAL)]),
        ]
    )
