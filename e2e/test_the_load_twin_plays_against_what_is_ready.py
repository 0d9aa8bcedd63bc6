"""Promise: the load twin plays a trace against the pods that are Ready, with no more rights than its page says."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx
import yaml
from prometheus_client.parser import text_string_to_metric_families

from harness.cluster import Cluster
from harness.components import ROOT, write_account
from harness.kube import Manifest
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until

ACCOUNT: Final = "hetserve-twin"
PROGRAM: Final = "from hetserve_twin import start; start()"


def documented_role() -> Manifest:
    page = (ROOT / "docs" / "how-to-play-loads.md").read_text()
    (role,) = (
        text for text in re.findall(r"^```yaml\n(.*?)^```", page, re.DOTALL | re.MULTILINE) if "ClusterRole" in text
    )
    found: Manifest = yaml.safe_load(role)
    return found


def account(sandbox: Sandbox) -> Path:
    """Kubeconfig of an account with the documented role alone."""
    role, subject = documented_role(), {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": sandbox.namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role["metadata"]["name"]}
    binding = {
        "apiVersion": role["apiVersion"],
        "kind": "ClusterRoleBinding",
        "metadata": {"name": role["metadata"]["name"]},
        "roleRef": reference,
        "subjects": [subject],
    }
    metadata = {"name": ACCOUNT, "namespace": sandbox.namespace}
    sandbox.cluster.apply([{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, role, binding])
    return write_account(sandbox.kube, sandbox.cluster.folder, ACCOUNT, sandbox.namespace)


@contextmanager
def twin(sandbox: Sandbox, trace: Path, log: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process, and where its metrics are."""
    arguments = ["--kubeconfig", str(account(sandbox)), "--load", f"{sandbox.namespace}/svc={trace}", "--port", "0"]
    with log.open("w") as out:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *arguments], stderr=out, text=True)
    try:

        def listens() -> str | Unmet:
            found = re.search(r"metrics on ([\d.]+:\d+)", log.read_text())
            return f"http://{found[1]}" if found else Unmet(log.read_text())

        yield process, wait_until(listens, 60, "the twin to listen")
    finally:
        process.kill()
        process.wait()
        for kind in ("clusterrolebindings", "clusterroles"):
            sandbox.kube.delete(kind, documented_role()["metadata"]["name"])


def served(url: str) -> dict[str, float]:
    """Queries by pod; those that have arrived under `received`."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics", trust_env=False).text):
        for sample in family.samples:
            if sample.name == "hetserve_requests_total":
                outcome = sample.labels["outcome"]
                found[sample.labels["pod"] or outcome] = sample.value
    return found


def test_queries_go_to_the_pods_that_are_ready(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    trace = tmp_path / "load.csv"
    trace.write_text("time_s,qps\n0,16\n")
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("gpu", count=2, gpus=1)
        kind = sandbox.instance_type("gpu")
        sandbox.profile("m", kind)
        sandbox.service("svc", "m", [kind])
        sandbox.ready("svc")
        with twin(sandbox, trace, tmp_path / "twin.log") as (process, url):

            def pods_that_served(number: int) -> dict[str, float] | Unmet:
                counts = served(url)
                pods = {name: count for name, count in counts.items() if name.startswith("svc") and count > 5}
                return counts if len(pods) == number else Unmet(counts)

            counts = wait_until(lambda: pods_that_served(1), 60, "one pod to serve")
            assert counts["received"] >= sum(count for name, count in counts.items() if name.startswith("svc"))
            assert httpx.get(f"{url}/readyz", trust_env=False).status_code == 200

            sandbox.edit("svc", {"spec": {"load": {"expectedQPS": 16}}})
            sandbox.ready("svc")
            wait_until(lambda: pods_that_served(2), 60, "both pods to serve")
            text = httpx.get(f"{url}/metrics", trust_env=False).text
            busy = re.findall(
                rf'^DCGM_FI_DEV_GPU_UTIL{{.*modelName="{sandbox.product("gpu")}".*}} (.*)$', text, re.MULTILINE
            )
            assert sum(float(percent) > 0 for percent in busy) == 2

            process.send_signal(signal.SIGTERM)
            assert process.wait(15) == 0
