"""Commands reduce each page of a list at once: whole pods of a large cluster take gigabytes."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from effort import spread
from hetserve.api import names
from hetserve.cli.app import app
from hetserve.cli.cluster.client import PAGE_BYTES, ClusterClient
from hetserve.cli.placement.queue_release import gated, release_all
from testing.cluster import gpu_node, gpu_pod
from testing.kit.http_face import HttpFace

Json = dict[str, Any]


def real_pod(name: str = "p0", **overrides: Any) -> Json:
    """A pod of 5 KB, as one with an environment and managed fields has."""
    pod = gpu_pod(name, **overrides)
    pod["spec"]["containers"][0]["env"] = [{"name": f"VARIABLE_{n}", "value": f"some value {n}"} for n in range(60)]
    fields: Json = {f"f:field{n}": {f"f:part{m}": {} for m in range(8)} for n in range(12)}
    pod["metadata"]["managedFields"] = [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}]
    return pod


RUN = """
import sys
from pathlib import Path
from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.placement.queue_release import gated
from hetserve.cli.cluster.snapshot import live_snapshot
from hetserve.cli.placement.placed import follow

cluster = ClusterClient.connect(sys.argv[1], None)
{work}
(most,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(most.split()[1])
"""
READ = {
    "queue release --all, the hook before an uninstall": "assert gated(cluster, None) == []",
    "gpus, why, queue, placement dump": "assert len(live_snapshot(cluster).pods) == 2000",
    "gpus --watch": "assert next(follow(cluster)).ledger.booking('uid-p0')",
}


@cache
def large_cluster() -> tuple[Json, ...]:
    return tuple(real_pod(f"p{n}", node="n0", gpu="0", phase="Running") for n in range(2000))


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize("reads", spread(tuple(READ), 1))
def test_no_command_holds_every_pod_of_a_large_cluster_whole(tmp_path: Path, reads: str) -> None:
    assert 5000 < len(json.dumps(real_pod())) < 6000
    with HttpFace.serving(gpu_node(), *large_cluster()) as api:
        api.hold = threading.Event()
        command = [sys.executable, "-c", RUN.format(work=READ[reads]), str(api.kubeconfig(tmp_path))]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        api.hold.set()
    held = int(ran.stdout) / 1024
    assert held < 110, f"2,000 pods of 5 KB take {held:.0f} MiB: of a large cluster the hook is killed"


def test_pods_as_large_as_they_may_be_come_in_short_pages(tmp_path: Path) -> None:
    largest = {"example.com/text": "x" * 255_000}
    with HttpFace.serving(*(gpu_pod(f"p{n}", annotations=largest) for n in range(160))) as api:
        gated(ClusterClient.connect(str(api.kubeconfig(tmp_path)), None), None)
    limits = [int(asked["query"]["limit"]) for _, _, asked in api.requests]
    assert limits == [100, 20, 20, 20]
    assert limits[1] * 255_000 < 2 * PAGE_BYTES


def test_only_pods_without_a_node_are_asked_for_and_our_gate_of_those_is_lifted(tmp_path: Path) -> None:
    pods = [real_pod("held", gates=("x", names.QUEUE_GATE)), real_pod("others", gates=("x",)), real_pod("free")]
    with HttpFace.serving(*pods) as api:
        cluster = ClusterClient.connect(str(api.kubeconfig(tmp_path)), None)
        (outcome,) = release_all(cluster, gated(cluster, None))
    (_, _, listed), (method, path, patch) = api.requests
    assert "spec.nodeName=" in listed["query"]["fieldSelector"].split(",")
    assert (method, path.rsplit("/", 1)[1], outcome.name) == ("PATCH", "held", "held")
    assert patch["body"][1] == {
        "op": "test",
        "path": "/spec/schedulingGates/1",
        "value": {"name": names.QUEUE_GATE},
    }


def test_why_still_names_what_it_does_not_judge_of_its_pod(tmp_path: Path) -> None:
    pod = real_pod("asks")
    pod["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "1"}
    pod["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    with HttpFace.serving(gpu_node(), real_pod("other"), pod) as api:
        words = ["why", "--kubeconfig", str(api.kubeconfig(tmp_path)), "-n", "default", "asks", "-o", "json"]
        answer = json.loads(CliRunner().invoke(app, words).stdout)
    assert answer["notJudged"] == ["cpu", "volumes"]
