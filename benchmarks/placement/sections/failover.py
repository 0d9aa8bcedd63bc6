"""The leading pair of scheduler and extender ends on a cluster full of pods: when is the next one bound?"""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Final

from benchmarks.placement.results import Scale
from benchmarks.reporting import Json, table, verdict

from harness.cluster import Cluster
from harness.failover import GOAL, TwoPairs

TITLE: Final = "Failover with 1,000 bound pods"

PODS: Final = 1_000
ROUNDS: Final = 5
_KINDS: Final = (
    ("killed", "SIGKILL of both: the Lease runs out"),
    ("stopped", "SIGTERM of both: the scheduler releases its Lease"),
    ("frozen", "SIGSTOP of both: the Lease runs out"),
    ("extender", "SIGSTOP of the extender: the scheduler's liveness probe fails"),
)


def measure(scale: Scale) -> Json:
    count = 200 if scale.quick else PODS
    rounds = scale.rounds or (1 if scale.quick else ROUNDS)
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, Cluster.started(Path(folder)) as cluster:
        pairs = TwoPairs.start(cluster, "default", count)
        return {"pods": count, "rounds": [_round(pairs, number) for number in range(rounds)]}


def describe(data: Json) -> str:
    rows = []
    for kind, words in _KINDS:
        seconds = [one[kind] for one in data["rounds"] if kind in one]
        if not seconds:
            continue
        figures = f"{min(seconds):.2f}/{statistics.median(seconds):.2f}/{max(seconds):.2f} s"
        rows.append([words, figures, f"< {GOAL:g} s", verdict(max(seconds) < GOAL)])
    text = (
        f"Two pairs of scheduler and extender as the chart sets them, 20 nodes x 8 GPUs, {data['pods']:,} bound pods.\n"
        "The one that leads is ended, and a pod is created at once: seconds from its end until that pod is bound,\n"
        f"over {len(data['rounds'])} rounds. After each, no GPU is over-committed and the ledger is what the\n"
        "annotations say.\n\n"
    )
    return text + table(["end of the leader", "min/med/max", "goal", ""], rows)


def _round(pairs: TwoPairs, number: int) -> Json:
    ends = {"killed": pairs.kill, "stopped": pairs.stop, "frozen": pairs.freeze, "extender": pairs.freeze_extender}
    return {kind: pairs.fail_over(f"{kind} {number}", ends[kind]) for kind, _ in _KINDS}
