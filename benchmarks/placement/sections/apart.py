"""The extender on a processor of its own: what the verbs themselves take, and the rate when nobody crowds it out.

On a machine whose processors are all busy a clock measures how long the kernel lets a process wait, and every
millisecond of the extender is taken from the API server. On a cluster the extender has another machine.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.placement.cluster import cases
from benchmarks.placement.cluster.load import pods, seeded
from benchmarks.placement.cluster.processors import one_apart
from benchmarks.placement.results import Scale
from benchmarks.placement.sections import apart_plot
from benchmarks.placement.sections.rates import (
    GOALS,
    GPUS,
    PODS,
    SIZES,
    STANDARD,
    cluster_of,
    goal_line,
    one_case,
    ratio,
)
from benchmarks.reporting import Json, table, verdict

from harness.cluster import Cluster

TITLE: Final = "The extender on a processor of its own: verbs and rates"

ROUNDS: Final = 3
CASES: Final = ("none", "no-op one", "decide", "score")
OURS: Final = ("decide", "score")
VERBS: Final = ("filter", "prioritize", "bind")

_HEAD: Final = """One processor is the extender's; API server, etcd, scheduler, KWOK and the benchmark share the others,
in every case, also in *none*, where it stays idle. Otherwise as above, {rounds} rounds. Ours keeps the time of every
verb here, which costs it about a twelfth of its own time. Own time: from the whole request read to the whole answer;
of bind the time that its own steps run, its waits for the API server and for the loop left out.
"""


def measure(scale: Scale) -> Json:
    sizes = scale.nodes or ((50,) if scale.quick else SIZES)
    rounds = scale.rounds or (1 if scale.quick else ROUNDS)
    names = [case for case in CASES if not scale.cases or case in scale.cases]
    with one_apart() as processor:
        found = [_size(nodes, rounds, names, processor) for nodes in sizes]
    return {"rounds": rounds, "cases": names, "sizes": found}


def _size(nodes: int, rounds: int, names: Sequence[str], processor: int) -> Json:
    count, rng = PODS.get(nodes, STANDARD)[-1], seeded(nodes)
    found: list[Json] = []
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, cluster_of(nodes, Path(folder)) as cluster:
        for number in range(rounds):
            order = list(names)
            rng.shuffle(order)
            workload = pods(count, rng)
            found.append({case: _one(cluster, case, workload, processor) for case in order})
            rates = ", ".join(f"{case} {found[-1][case]['rate']:.0f}" for case in names)
            print(f"  {nodes} nodes, round {number + 1}: {rates} pods/s", flush=True)
    return {"nodes": nodes, "pods": count, "rounds": found}


def _one(cluster: Cluster, case: str, workload: Sequence[Json], processor: int) -> Json:
    return asyncio.run(one_case(cluster, case, workload, cases.Running(timed=True, processor=processor)))


def describe(data: Json) -> str:
    picture = [f"![Own times of the verbs](placement/{apart_plot.FILE})\n"] if apart_plot.draw(data) else []
    parts = [*(_describe_size(size, data["cases"]) for size in data["sizes"]), *picture]
    return _HEAD.format(rounds=data["rounds"]) + "\n" + "\n".join(parts)


def _describe_size(size: Json, names: Sequence[str]) -> str:
    rows = [_row(case, size["rounds"]) for case in names]
    head = [
        "case",
        "pods/s min/med/max",
        "ratio to no extender: med (min)",
        "extender, CPU ms per pod",
        "own ms p50/p99 (worst round): filter; prioritize; bind",
    ]
    lines = "\n".join(f"- {line}" for line in _verdicts(size))
    return f"### {size['nodes']} nodes x {GPUS} GPUs, {size['pods']} pods\n\n{table(head, rows)}\n{lines}\n"


def _row(case: str, rounds: Sequence[Json]) -> list[str]:
    found = [one[case] for one in rounds]
    rates = sorted(one["rate"] for one in found)
    return [
        case,
        f"{rates[0]:.0f}/{statistics.median(rates):.0f}/{rates[-1]:.0f}",
        ratio(rounds, case, "none"),
        f"{statistics.median(one['extenderCpuMsPerPod'] for one in found):.2f}" if case != "none" else "-",
        "; ".join(_verb(found, verb) for verb in VERBS),
    ]


def _verb(found: Sequence[Json], verb: str) -> str:
    times = [one["verbs"][verb] for one in found if verb in one["verbs"]]
    if not times:
        return "-"
    return f"{statistics.median(t['p50'] for t in times):.2f}/{max(t['p99'] for t in times):.2f}"


def _verdicts(size: Json) -> list[str]:
    rounds, nodes = size["rounds"], size["nodes"]
    lines = []
    if nodes in GOALS and all("none" in one and "decide" in one for one in rounds):
        lines.append(goal_line(rounds, nodes))
    for case in OURS:
        timed = [one[case]["verbs"] for one in rounds if case in one]
        filters = [verbs["filter"]["p99"] for verbs in timed if "filter" in verbs]
        binds = [verbs["bind"]["p50"] for verbs in timed if "bind" in verbs]
        if filters and nodes == max(GOALS):
            found = f"worst round {max(filters):.2f} ms"
            lines.append(f"`{case}`: filter p99 < 2 ms of own time: {found}: {verdict(max(filters) < 2)}")
        if binds:
            found = f"worst round's median {max(binds):.2f} ms"
            lines.append(f"`{case}`: bind without its API call < 0.5 ms: {found}: {verdict(max(binds) < 0.5)}")
    return lines
