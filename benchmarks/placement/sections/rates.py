"""Pods/s through the real scheduler: without extender, with ours, with extenders that do nothing."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.placement.cluster import cases
from benchmarks.placement.cluster.load import NAMESPACE, LoadClient, cpu_seconds, peak_mib, pods, renamed, seeded
from benchmarks.placement.results import Scale
from benchmarks.placement.sections import rates_plot
from benchmarks.reporting import Json, table, verdict

from harness.cluster import Cluster
from harness.nodes import Gpus, NodeGroup

TITLE: Final = "Rates: pods per second through the scheduler"

SIZES: Final = (50, 500, 1000)
ROUNDS: Final = 5
PODS: Final = {50: (600, 2000)}
"""Pods of a round by nodes; default 1,000. With 50 nodes 600 pods take about a second, so also 2,000."""
STANDARD: Final = (1000,)
GPU_MIB: Final = 32768
GPUS: Final = 8
FLOOR: Final = {"decide": "no-op one", "score": "no-op all", "no-op bind": "no-op one"}
GOALS: Final = {50: 0.80, 500: 0.65, 1000: 0.60}
"""Least median ratio of `decide` to no extender, by nodes."""
LEAST: Final = 0.5
"""Least ratio of a round."""


_HEAD: Final = """Stock kube-scheduler with the chart's configuration (`percentageOfNodesToScore` 100, client rate
5,000/s). All pods exist before the scheduler starts; a rate is from the first to the last bind seen on a watch. The
cases of a round run one after another in shuffled order, {rounds} rounds; a ratio is taken within its round, as the
machine changes more from round to round than within one. *none*: the scheduler without extender, the same pods, their
GPU memory ignored. *no-op one*, *no-op all*: extenders in the same process technology that parse the request and answer
with one node, or with all and scores; the scheduler binds. *no-op bind*: as *no-op one*, and it binds, as an extender
must that says which GPU in the same write; it does nothing else. Ours runs as shipped, with the chart's settings but
for its Lease (15 s, so that a crowded machine deposes nobody in the middle of a round).

All processes share the machine's processors (*busy*: of their time from the first bind to the last). Where these are
all busy an extender is also paid for with what the API server and the scheduler cannot do meanwhile: the rate is what
the whole machine spends on a pod. The next section gives the extender a processor of its own. With 50 nodes there are
rounds of two lengths: a burst of 600 pods, which without extender is over in less than a second, and 2,000 pods.
"""


@dataclass(frozen=True, slots=True)
class Setup:
    """Sizes, rounds, and cases."""

    sizes: Sequence[int]
    rounds: int
    names: Sequence[str]

    @classmethod
    def of(cls, scale: Scale) -> Setup:
        sizes = scale.nodes or ((50,) if scale.quick else SIZES)
        return cls(sizes, scale.rounds or (1 if scale.quick else ROUNDS), scale.cases or cases.CASES)


def measure(scale: Scale) -> Json:
    setup = Setup.of(scale)
    sizes = [_size(nodes, count, setup) for nodes in setup.sizes for count in PODS.get(nodes, STANDARD)]
    return {"rounds": setup.rounds, "cases": list(setup.names), "sizes": sizes}


def describe(data: Json) -> str:
    head = _HEAD.format(rounds=data["rounds"])
    picture = [f"![Rates](placement/{rates_plot.FILE})\n"] if rates_plot.draw(data) else []
    return head + "\n" + "\n".join([*(_describe_size(size) for size in data["sizes"]), *picture])


def _size(nodes: int, count: int, setup: Setup) -> Json:
    rng = seeded(nodes)
    rounds: list[Json] = []
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, cluster_of(nodes, Path(folder)) as cluster:
        for number in range(setup.rounds):
            order = list(setup.names)
            rng.shuffle(order)
            workload = pods(count, rng)
            found = {case: asyncio.run(one_case(cluster, case, workload)) for case in order}
            rounds.append(found)
            rates = ", ".join(f"{case} {found[case]['rate']:.0f}" for case in setup.names)
            print(f"  {nodes} nodes, {count} pods, round {number + 1}: {rates} pods/s", flush=True)
    return {"nodes": nodes, "pods": count, "processors": len(os.sched_getaffinity(0)), "rounds": rounds}


def cluster_of(nodes: int, folder: Path) -> Any:
    """A control plane with so many nodes of 8 GPUs and the chart's settings."""
    return _Cluster(nodes, folder)


class _Cluster:
    def __init__(self, nodes: int, folder: Path) -> None:
        self._group = NodeGroup("gpu", "gpu", nodes, "96", "768Gi", gpus=Gpus("V100", GPU_MIB, GPUS))
        self._cluster = Cluster.start(folder / "cluster")

    def __enter__(self) -> Cluster:
        try:
            self._cluster.add_nodes(self._group)
            self._cluster.install_chart()
            self._cluster.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        except BaseException:
            self._cluster.stop()
            raise
        return self._cluster

    def __exit__(self, *_: object) -> None:
        self._cluster.stop()


async def one_case(cluster: Cluster, case: str, workload: Sequence[Json], running: cases.Running | None = None) -> Json:
    """One case of one round."""
    running = running or cases.Running()
    load = await LoadClient.connect(cluster)
    try:
        since = await load.revision()
        await load.create(renamed(workload))
        with cases.extender(cluster, case, running):
            before = cpu_seconds(running.extender) if running.extender else 0.0
            with cases.scheduler(cluster, case, running), cases.logs_told(cluster, case):
                binds = await load.binds(len(workload), since)
                used = cpu_seconds(running.scheduler)
                own = cpu_seconds(running.extender) - before if running.extender else 0.0
                memory = peak_mib(running.extender) if running.extender else 0.0
        await load.clear()
    finally:
        await load.close()
    return {
        "rate": binds.rate,
        "busy": binds.busy,
        "schedulerCpuMsPerPod": used / len(workload) * 1e3,
        "extenderCpuMsPerPod": own / len(workload) * 1e3,
        "extenderPeakMiB": memory,
        "verbs": {verb: quantiles(times) for verb, times in running.verbs.items() if times},
    }


def quantiles(seconds: Sequence[float]) -> Json:
    """p50, p99 and the longest [ms]."""
    ordered = sorted(seconds)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1e3 for name, share in at.items()}


# The report


def _describe_size(size: Json) -> str:
    rounds = size["rounds"]
    names = list(rounds[0])
    rows = [
        _row(case, rounds, size["processors"])
        for case in (*(c for c in cases.CASES if c in names), *sorted(set(names) - set(cases.CASES)))
    ]
    head = [
        "case",
        "pods/s min/med/max",
        "ratio to no extender: med (min)",
        "ratio to its no-op: med (min)",
        "CPU ms per pod: scheduler / extender",
        "processors busy",
        "CPU ms per pod, the whole machine",
        "peak MiB",
    ]
    text = f"### {size['nodes']} nodes x {GPUS} GPUs, {size['pods']} pods\n\n" + table(head, rows)
    return text + "\n" + "\n".join(f"- {line}" for line in _verdicts(size)) + "\n"


def _row(case: str, rounds: Sequence[Json], processors: int) -> list[str]:
    found = [one[case] for one in rounds]
    rates = sorted(one["rate"] for one in found)
    scheduler = statistics.median(one["schedulerCpuMsPerPod"] for one in found)
    extender = statistics.median(one["extenderCpuMsPerPod"] for one in found)
    memory = max(one["extenderPeakMiB"] for one in found)
    return [
        case,
        f"{rates[0]:.0f}/{statistics.median(rates):.0f}/{rates[-1]:.0f}",
        ratio(rounds, case, "none"),
        ratio(rounds, case, FLOOR.get(case.partition("@")[0], "")),
        f"{scheduler:.2f} / {extender:.2f}",
        f"{statistics.median(one['busy'] for one in found):.0%}",
        f"{statistics.median(one['busy'] * processors / one['rate'] for one in found) * 1e3:.1f}",
        f"{memory:.0f}" if memory else "-",
    ]


def ratios(rounds: Sequence[Mapping[str, Json]], case: str, other: str) -> list[float]:
    """Per round that has both."""
    return [one[case]["rate"] / one[other]["rate"] for one in rounds if case in one and other in one]


def ratio(rounds: Sequence[Json], case: str, other: str) -> str:
    """Median and least, as text."""
    found = ratios(rounds, case, other) if case != other else []
    return f"{statistics.median(found):.2f} ({min(found):.2f})" if found else "-"


def _verdicts(size: Json) -> list[str]:
    rounds, nodes = size["rounds"], size["nodes"]
    lines = [goal_line(rounds, nodes)] if nodes in GOALS and ratios(rounds, "decide", "none") else []
    for case, floor in FLOOR.items():
        if (found := ratios(rounds, case, floor)) and case != "no-op bind":
            middle = statistics.median(found)
            lines.append(f"`{case}` at 0.90 of its no-op (aim): {middle:.2f}: {verdict(middle >= 0.9)}")
    if found := ratios(rounds, "decide", "no-op bind"):
        lines.append(f"`decide` of the no-op that binds: {statistics.median(found):.2f}")
    if memory := [one[case]["extenderPeakMiB"] for one in rounds for case in ("decide", "score") if case in one]:
        lines.append(f"extender < 300 MiB: {max(memory):.0f} MiB: {verdict(max(memory) < 300)}")
    return lines


def goal_line(rounds: Sequence[Json], nodes: int) -> str:
    """The goal of `decide`, what was found, and what no-ops reach."""
    found = ratios(rounds, "decide", "none")
    held = statistics.median(found) >= GOALS[nodes] and min(found) >= LEAST
    goal = f"`decide` >= {GOALS[nodes]:.2f} of no extender, no round below {LEAST:g}"
    floors = [
        f"{words}: {statistics.median(floor):.2f}"
        for case, words in (("no-op one", "an extender that does nothing"), ("no-op bind", "one that only binds"))
        if (floor := ratios(rounds, case, "none"))
    ]
    beside = f" ({'; '.join(floors)})" if floors else ""
    return f"{goal}: {statistics.median(found):.2f}, least {min(found):.2f}{beside}: {verdict(held)}"
