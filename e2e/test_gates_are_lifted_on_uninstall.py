"""Promise: no pod is left behind our gate: not when hetserve is uninstalled, not when its queues stand still."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from harness import controlplane, limits
from harness.arrivals import pod
from harness.chart import chart_objects
from harness.cluster import Cluster
from harness.components import RELEASE, write_account
from harness.nodes import Gpus, NodeGroup
from harness.waiting import Unmet, wait_until
from hetserve.api.names import QUEUE_GATE, SYSTEM_NAMESPACE

OTHERS = "example.com/admission"
NODE = NodeGroup("gpu", "gpu", 1, cpu="16", memory="64Gi", gpus=Gpus("T4", 16384, 2))


def gates(cluster: Cluster) -> dict[str, list[str]]:
    return {
        found["metadata"]["name"]: [gate["name"] for gate in found["spec"].get("schedulingGates", [])]
        for found in cluster.pods()
    }


def hetserve(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command as a user runs it; as the administrator unless another kubeconfig is named."""
    program = str(Path(sys.executable).parent / "hetserve")
    env = controlplane.environment(cluster.folder)
    return subprocess.run(
        [program, *arguments], env=env, capture_output=True, text=True, check=False, timeout=limits.COMMAND
    )


def uninstall_hook(cluster: Cluster) -> tuple[list[str], Path]:
    """Command of the Job that the chart runs before anything is deleted, and a kubeconfig of its own account."""
    rendered = chart_objects("--set", "crds.install=false")
    hooks = [h for h in rendered if h["metadata"].get("annotations", {}).get("helm.sh/hook") == "pre-delete"]
    (job,) = [item for item in hooks if item["kind"] == "Job"]
    cluster.apply([item for item in hooks if item is not job])
    spec = job["spec"]["template"]["spec"]
    account = write_account(cluster.kube, cluster.folder, spec["serviceAccountName"])
    return spec["containers"][0]["command"], account


def test_the_uninstall_hook_lifts_our_gate_from_every_pod_while_nothing_of_ours_runs(own_cluster: Cluster) -> None:
    own_cluster.install_chart()  # roles and accounts, no process: the extender is down
    own_cluster.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}})
    for number in range(12):
        own_cluster.kube.create(pod(f"p{number}", "default", 1024, {}, QUEUE_GATE))
    own_cluster.kube.create(pod("held", "team", 1024, {}, OTHERS, QUEUE_GATE))
    own_cluster.kube.create(pod("theirs", "team", 1024, {}, OTHERS))

    listed = json.loads(hetserve(own_cluster, "queue", "-o", "json").stdout)
    assert (listed["waiting"], len(listed["queues"]), len(listed["next"])) == (12, 1, 8)
    assert [held["name"] for held in listed["heldByOthers"]] == ["held"]

    command, account = uninstall_hook(own_cluster)
    assert command[0] == "hetserve"
    done = hetserve(own_cluster, *command[1:], "--kubeconfig", str(account))

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "13 released"), done.stderr
    left = gates(own_cluster)
    assert {name for name, held in left.items() if QUEUE_GATE in held} == set()
    assert (left["held"], left["theirs"]) == ([OTHERS], [OTHERS])

    helm = [own_cluster.tools["helm"], "uninstall", RELEASE, "--namespace", SYSTEM_NAMESPACE]
    env = controlplane.environment(own_cluster.folder)
    subprocess.run(
        [*helm, "--kubeconfig", str(own_cluster.folder.kubeconfig)], env=env, check=True, timeout=limits.COMMAND
    )
    assert gates(own_cluster) == left


def test_the_watchdog_releases_pods_of_a_stuck_queue_and_says_so_on_the_pod(own_cluster: Cluster) -> None:
    own_cluster.add_nodes(NODE)
    own_cluster.install_chart({"extender": {"queue": {"beta": 1, "failOpenAfter": "4s"}}})
    own_cluster.give_leases_up()
    own_cluster.start_component("extender")  # and no scheduler: the one released pod is never bound
    for number in range(3):
        own_cluster.kube.create(pod(f"p{number}", "default", 1024, {}, QUEUE_GATE))

    def all_are_out() -> bool | Unmet:
        held = gates(own_cluster)
        return not any(held.values()) or Unmet(held)

    wait_until(all_are_out, limits.REACTION, "the watchdog to release what beta = 1 holds back")
    wait_until(
        lambda: len(own_cluster.events("default", reason="QueueFailedOpen")) == 2 or Unmet("no event"),
        limits.ANSWER,
        "an event on each of the two that were not released in turn",
    )
    own_cluster.start_component("scheduler")
    wait_until(
        lambda: all(found["spec"].get("nodeName") for found in own_cluster.pods("default")) or Unmet("unbound"),
        limits.REACTION,
        "all three to be bound",
    )
