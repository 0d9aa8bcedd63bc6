"""Pods per second through the real scheduler: without extender, with ours, and with extenders that do nothing."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.placement import cases, rates_plot
from benchmarks.placement.load import NAMESPACE, Load, cpu_seconds, peak_mib, pods, renamed, seeded
from benchmarks.placement.results import Scale
from benchmarks.reporting import Json, table, verdict

from harness.cluster import Cluster
from harness.nodes import Gpus, NodeGroup

TITLE: Final = "Rates: pods per second through the scheduler"

SIZES: Final = (50, 500, 1000)
ROUNDS: Final = 5
PODS: Final = {50: 600}
GPU_MIB: Final = 32768
GPUS: Final = 8
FLOOR: Final = {"decide": "no-op one", "score": "no-op all"}
GOALS: Final = {50: 0.80, 500: 0.65, 1000: 0.60}
"""Least median ratio of `decide` to the scheduler without extender, by nodes."""


_HEAD: Final = """Stock kube-scheduler with the chart's configuration (`percentageOfNodesToScore` 100, client rate
5,000/s). All pods exist before the scheduler starts; a rate is from the first to the last bind seen on a watch. The
cases of a round run one after another in shuffled order, {rounds} rounds; a ratio is taken within its round, as the
machine changes more from round to round than within one. *none*: the scheduler without extender, the same pods, their
GPU memory ignored. *no-op one*, *no-op all*: extenders in the same process technology that parse the request and answer
with one node, or with all and scores; the scheduler binds. Own time: from the whole request read to the whole answer;
of bind the time that its own steps run, its waits for the API server and for the loop left out.
"""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is run: sizes, rounds, and cases in every round."""

    sizes: Sequence[int]
    rounds: int
    names: Sequence[str]

    @classmethod
    def of(cls, scale: Scale) -> Setup:
        sizes = scale.nodes or ((50,) if scale.quick else SIZES)
        return cls(sizes, scale.rounds or (1 if scale.quick else ROUNDS), scale.cases or cases.CASES)


def measure(scale: Scale) -> Json:
    setup = Setup.of(scale)
    sizes = [_size(nodes, setup) for nodes in setup.sizes]
    return {"rounds": setup.rounds, "cases": list(setup.names), "sizes": sizes}


def describe(data: Json) -> str:
    head = _HEAD.format(rounds=data["rounds"])
    picture = [f"![Rates and own times](placement/{rates_plot.FILE})\n"] if rates_plot.draw(data) else []
    return head + "\n" + "\n".join([*(_describe_size(size) for size in data["sizes"]), *picture])


def _size(nodes: int, setup: Setup) -> Json:
    count = PODS.get(nodes, 1000)
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
            print(f"  {nodes} nodes, round {number + 1}: {rates} pods/s", flush=True)
    return {"nodes": nodes, "pods": count, "rounds": rounds}


def cluster_of(nodes: int, folder: Path) -> Any:
    """Context of a control plane with so many nodes of 8 GPUs and the chart's settings; nothing of ours runs."""
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


async def one_case(cluster: Cluster, case: str, workload: Sequence[Json]) -> Json:
    """One case of one round: pods, then the extender, then the scheduler, then what was seen."""
    load = await Load.connect(cluster)
    try:
        since = await load.revision()
        await load.create(renamed(workload))
        running = cases.Running()
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
        "schedulerCpuMsPerPod": used / len(workload) * 1e3,
        "extenderCpuMsPerPod": own / len(workload) * 1e3,
        "extenderPeakMiB": memory,
        "verbs": {verb: quantiles(times) for verb, times in running.verbs.items() if times},
    }


def quantiles(seconds: Sequence[float]) -> Json:
    """p50, p99 and the longest, in milliseconds."""
    ordered = sorted(seconds)
    at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    return {name: ordered[min(int(share * len(ordered)), len(ordered) - 1)] * 1e3 for name, share in at.items()}


# The report


def _describe_size(size: Json) -> str:
    rounds = size["rounds"]
    names = list(rounds[0])
    rows = [
        _row(case, rounds) for case in (*(c for c in cases.CASES if c in names), *sorted(set(names) - set(cases.CASES)))
    ]
    head = [
        "case",
        "pods/s min/med/max",
        "ratio to no extender: med (min)",
        "ratio to its no-op: med (min)",
        "CPU ms per pod: scheduler / extender",
        "own ms p50/p99 (worst round): filter; prioritize; bind",
        "peak MiB",
    ]
    text = f"### {size['nodes']} nodes x {GPUS} GPUs, {size['pods']} pods\n\n" + table(head, rows)
    return text + "\n" + "\n".join(f"- {line}" for line in _verdicts(size)) + "\n"


def _row(case: str, rounds: Sequence[Json]) -> list[str]:
    found = [one[case] for one in rounds]
    rates = sorted(one["rate"] for one in found)
    scheduler = statistics.median(one["schedulerCpuMsPerPod"] for one in found)
    extender = statistics.median(one["extenderCpuMsPerPod"] for one in found)
    memory = max(one["extenderPeakMiB"] for one in found)
    verbs = "; ".join(_verb(found, verb) for verb in ("filter", "prioritize", "bind"))
    return [
        case,
        f"{rates[0]:.0f}/{statistics.median(rates):.0f}/{rates[-1]:.0f}",
        _ratio(rounds, case, "none"),
        _ratio(rounds, case, FLOOR.get(case.partition("@")[0], "")),
        f"{scheduler:.2f} / {extender:.2f}",
        verbs,
        f"{memory:.0f}" if memory else "-",
    ]


def ratios(rounds: Sequence[Mapping[str, Json]], case: str, other: str) -> list[float]:
    """Ratio of two cases' rates in every round that has both."""
    return [one[case]["rate"] / one[other]["rate"] for one in rounds if case in one and other in one]


def _ratio(rounds: Sequence[Json], case: str, other: str) -> str:
    found = ratios(rounds, case, other) if case != other else []
    return f"{statistics.median(found):.2f} ({min(found):.2f})" if found else "-"


def _verb(found: Sequence[Json], verb: str) -> str:
    times = [one["verbs"][verb] for one in found if verb in one["verbs"]]
    if not times:
        return "-"
    return f"{statistics.median(t['p50'] for t in times):.2f}/{max(t['p99'] for t in times):.2f}"


def _verdicts(size: Json) -> list[str]:
    rounds, nodes = size["rounds"], size["nodes"]
    lines = []
    found = ratios(rounds, "decide", "none")
    if found and nodes in GOALS:
        held = statistics.median(found) >= GOALS[nodes] and min(found) >= 0.5
        goal = f"`decide` >= {GOALS[nodes]:.2f} of no extender, no round below 0.5"
        nothing = ratios(rounds, FLOOR["decide"], "none")
        beside = f" (an extender that does nothing: {statistics.median(nothing):.2f})" if nothing else ""
        lines.append(f"{goal}: {statistics.median(found):.2f}, least {min(found):.2f}{beside}: {verdict(held)}")
    for case, floor in FLOOR.items():
        if found := ratios(rounds, case, floor):
            middle = statistics.median(found)
            lines.append(f"`{case}` at 0.90 of its no-op (aim): {middle:.2f}: {verdict(middle >= 0.9)}")
    lines += _own_time(rounds, nodes)
    return lines


def _own_time(rounds: Sequence[Json], nodes: int) -> list[str]:
    ours = [one[case] for one in rounds for case in ("decide", "score") if case in one]
    filters, processor = (
        [one["verbs"][verb]["p99"] for one in ours if verb in one["verbs"]] for verb in ("filter", "filter processor")
    )
    binds = [one["verbs"]["bind"]["p50"] for one in ours if "bind" in one["verbs"]]
    lines = []
    if filters and nodes == max(GOALS):
        spent = f", {max(processor):.2f} ms of it on a processor" if processor else ""
        found = f"worst round {max(filters):.2f} ms{spent}"
        lines.append(f"filter p99 < 2 ms of own time: {found}: {verdict(max(filters) < 2)}")
    if binds:
        lines.append(f"bind without its API call < 0.5 ms: median {max(binds):.2f} ms: {verdict(max(binds) < 0.5)}")
    if memory := [one["extenderPeakMiB"] for one in ours]:
        lines.append(f"extender < 300 MiB: {max(memory):.0f} MiB: {verdict(max(memory) < 300)}")
    return lines
