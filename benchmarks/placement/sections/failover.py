"""The leading extender ends, by SIGKILL and by SIGTERM, on a cluster full of pods: when is the next one bound?"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.placement.results import Scale
from benchmarks.reporting import Json, table, verdict

from harness.cluster import Cluster
from harness.failover import GOAL, ExtenderPair
from harness.sandbox import Sandbox

TITLE: Final = "Failover with 1,000 bound pods"

PODS: Final = 1_000
NODES: Final = 20
GPUS: Final = 8
ROUNDS: Final = 5
_KINDS: Final = (("killed", "SIGKILL: the Lease runs out"), ("stopped", "SIGTERM: the Lease is handed over"))


def measure(scale: Scale) -> Json:
    count = 200 if scale.quick else PODS
    rounds = scale.rounds or (1 if scale.quick else ROUNDS)
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, Cluster.started(Path(folder)) as cluster:
        cluster.install_hetserve()
        cluster.start_component("extender-standby")
        with Sandbox.cleared(cluster, "default") as sandbox:
            sandbox.nodes("big", count=NODES, gpus=GPUS)
            sandbox.deployment("many", "big", replicas=count, mib=2048, model=None, gated=False)
            sandbox.wait_for_bound(count, "app=many", timeout=300)
            return {
                "pods": count,
                "rounds": [_round(ExtenderPair(cluster, sandbox), number) for number in range(rounds)],
            }


def describe(data: Json) -> str:
    rows = []
    for kind, words in _KINDS:
        seconds = [one[kind] for one in data["rounds"]]
        figures = f"{min(seconds):.2f}/{statistics.median(seconds):.2f}/{max(seconds):.2f} s"
        rows.append([words, figures, f"< {GOAL:g} s", verdict(max(seconds) < GOAL)])
    text = (
        f"Two extenders as the chart sets them, {NODES} nodes x {GPUS} GPUs with {data['pods']:,} bound pods. The one\n"
        f"that leads is ended, and a pod is created at once: seconds from the end of the process until that pod is\n"
        f"bound, over {len(data['rounds'])} rounds. After each, no GPU is over-committed and the ledger is what the\n"
        "annotations say.\n\n"
    )
    return text + table(["end of the leader", "min/med/max", "goal", ""], rows)


def _round(pair: ExtenderPair, number: int) -> Json:
    ends = {"killed": pair.cluster.kill_component, "stopped": pair.cluster.stop_component}
    return {kind: pair.fail_over(f"{kind} {number}", ends[kind]) for kind, _ in _KINDS}
