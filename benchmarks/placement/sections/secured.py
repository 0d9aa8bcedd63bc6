"""What mutual TLS costs: pods/s through the real scheduler with and without it."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.placement.cluster import cases
from benchmarks.placement.cluster.load import pods, seeded
from benchmarks.placement.results import Scale
from benchmarks.placement.sections.rates import cluster_of, one_case
from benchmarks.reporting import Json, table, verdict

TITLE: Final = "Mutual TLS: pods per second with and without"

PLAIN: Final = "decide"
ORDERS: Final = ((PLAIN, cases.TLS), (cases.TLS, PLAIN))
NODES, PODS, ROUNDS = 50, 600, 7
GOAL: Final = 0.90
"""Least median of the ratio to plain HTTP."""

_HEAD: Final = """As above, on {nodes} nodes, {pods} pods a round: `decide` over plain HTTP and over mutual TLS, in
turns, {rounds} rounds that begin with one and the other alternately; a ratio is taken within its round. Certificates
are the chart's own (ECDSA P-256, TLS 1.3, no resumption). *Connections*: those that the extender accepted in one more
round of each, with its own health checks, one a second; the scheduler keeps two idle ones and makes others anew.
"""


def measure(scale: Scale) -> Json:
    count = scale.rounds or (1 if scale.quick else ROUNDS)
    rng = seeded(NODES)
    rounds: list[Json] = []
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, cluster_of(NODES, Path(folder)) as cluster:
        for number in range(count):
            workload = pods(PODS, rng)
            found = {case: asyncio.run(one_case(cluster, case, workload)) for case in ORDERS[number % 2]}
            rounds.append({case: found[case] for case in ORDERS[0]})
            rates = ", ".join(f"{case} {found[case]['rate']:.0f}" for case in ORDERS[0])
            print(f"  round {number + 1}: {rates} pods/s", flush=True)
        connections = {}
        for case in ORDERS[0]:
            running = cases.Running(timed=True)
            asyncio.run(one_case(cluster, case, pods(PODS, rng), running))
            connections[case] = len(running.verbs["connections"])
    return {"rounds": rounds, "connections": connections}


def describe(data: Json) -> str:
    rounds = data["rounds"]
    ratios = [each[cases.TLS]["rate"] / each[PLAIN]["rate"] for each in rounds]
    rows = []
    for case in ORDERS[0]:
        rates = [each[case]["rate"] for each in rounds]
        own = statistics.median(each[case]["extenderCpuMsPerPod"] for each in rounds)
        theirs = statistics.median(each[case]["schedulerCpuMsPerPod"] for each in rounds)
        spread = f"{min(rates):.0f}/{statistics.median(rates):.0f}/{max(rates):.0f}"
        rows.append([case, spread, f"{theirs:.2f} / {own:.2f}", str(data["connections"][case])])
    head = ["case", "pods/s min/med/max", "CPU ms per pod: scheduler / extender", "connections"]
    ratio = statistics.median(ratios)
    held = f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f}): {verdict(ratio >= GOAL)}"
    words = f"`{cases.TLS}` >= {GOAL:.2f} of `{PLAIN}`: {held}"
    text = _HEAD.format(nodes=NODES, pods=PODS, rounds=len(rounds)) + "\n" + table(head, rows)
    return f"{text}\n- {words}\n"
