"""A nearly full cluster: 396 pods that each take a whole GPU of 400. How many binds are rejected?

With filters in a row and binds beside them, an extender that counts only what is bound promises a GPU twice.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from pathlib import Path
from typing import Final

import httpx
from benchmarks.placement.cluster import cases
from benchmarks.placement.cluster.load import NAMESPACE, LoadClient, pods, renamed, seeded
from benchmarks.placement.results import Scale
from benchmarks.placement.sections.rates import GPU_MIB, GPUS, cluster_of
from benchmarks.reporting import Json, table, verdict
from prometheus_client.parser import text_string_to_metric_families

from harness.cluster import Cluster

TITLE: Final = "Nearly full: 396 pods on 400 slots"

NODES: Final = 50
PODS: Final = 396
ROUNDS: Final = 3


def measure(scale: Scale) -> Json:
    rounds = scale.rounds or (1 if scale.quick else ROUNDS)
    wanted = [case for case in ("decide", "score") if not scale.cases or case in scale.cases]
    with tempfile.TemporaryDirectory(prefix="hetserve-bench-") as folder, cluster_of(NODES, Path(folder)) as cluster:
        found = {case: [asyncio.run(_round(cluster, case)) for _ in range(rounds)] for case in wanted}
    return {"slots": NODES * GPUS, "pods": PODS, "cases": found}


def describe(data: Json) -> str:
    rows = []
    for case, rounds in data["cases"].items():
        kinds = Counter[str]()
        for one in rounds:
            kinds.update(one["rejected"])
        rejected, twice = kinds["refused"], sum(one["sharedGpus"] for one in rounds)
        rates = "/".join(f"{rate:.0f}" for rate in sorted(one["rate"] for one in rounds))
        goal = verdict(rejected == 0) if case == "decide" else "-"
        others = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()) if kind != "refused") or "none"
        rows.append([case, rates, rejected, goal, others, twice, verdict(twice == 0)])
    text = (
        f"{data['pods']} pods, each as large as a GPU, on {data['slots']} GPUs; all exist before the scheduler.\n"
        "A rejection is a bind to a GPU that is no longer free. Other errors: an answer that was late or lost, or the\n"
        "API server's own words; after any of them the scheduler tries the pod again.\n"
        "In `score` mode nothing is reserved before bind, so a rejection is what protects the GPU.\n\n"
    )
    head = [
        "case",
        "pods/s by round",
        "binds rejected",
        "goal: none in `decide`",
        "other errors",
        "GPUs given twice",
        "goal: none",
    ]
    return text + table(head, rows)


async def _round(cluster: Cluster, case: str) -> Json:
    load = await LoadClient.connect(cluster)
    try:
        since = await load.revision()
        await load.create(renamed(pods(PODS, seeded(1), mib=(GPU_MIB,))))
        running = cases.Running()
        with (
            cases.extender(cluster, case, running),
            cases.scheduler(cluster, case, running),
            cases.logs_told(cluster, case),
        ):
            binds = await load.binds(PODS, since)
            rejected = _rejected(cluster)
        placed = [
            (pod["spec"]["nodeName"], pod["metadata"]["annotations"]["hetserve.io/gpu"])
            for pod in cluster.kube.list("pods", NAMESPACE)
        ]
        await load.clear()
    finally:
        await load.close()
    return {"rate": binds.rate, "rejected": rejected, "sharedGpus": len(placed) - len(set(placed))}


def _rejected(cluster: Cluster) -> dict[str, int]:
    """Binds answered with an error by kind, as the extender counts them."""
    url = f"http://{cases.HOST}:{cluster.ports.extender_probe}/metrics"
    families = text_string_to_metric_families(httpx.get(url, trust_env=False).text)
    samples = [sample for family in families for sample in family.samples]
    errors = [sample for sample in samples if sample.name == "hetserve_bind_errors_total"]
    return {sample.labels["kind"]: int(sample.value) for sample in errors}
