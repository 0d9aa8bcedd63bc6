"""The harness itself: a real control plane comes up, runs pods, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import limits
from harness.cluster import CONTROL_PLANE_PARTS, Cluster
from harness.components import ROOT
from harness.invariant_monitor import FOLLOWER, following
from harness.kube import ApiError, Manifest
from harness.nodes import BOTH, INSTANCE_TYPE_LABEL, Gpus, NodeGroup
from harness.pins import KUBERNETES, version_of
from harness.processes import ProcessRecord, command_line, end
from harness.state import StateFolder
from harness.tools import Toolset, chosen
from harness.waiting import Unmet, wait_until


def deployment(name: str, instance_type: str, replicas: int) -> Manifest:
    labels = {"app": name}
    container = {"name": "main", "image": "none", "resources": {"requests": {"cpu": "1"}}}
    spec = {"nodeSelector": {INSTANCE_TYPE_LABEL: instance_type}, "containers": [container]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def processes_of(path: Path) -> list[str]:
    """Command lines of the running processes that name this folder."""
    pids = (int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    return [line for pid in pids if f"{path}/" in (line := command_line(pid))]


def test_the_nodes_of_both_testbeds_are_ready(bare_cluster: Cluster) -> None:
    names = {node["metadata"]["name"] for node in bare_cluster.kube.list("nodes")}
    assert names >= {name for testbed in BOTH for name in testbed.node_names()}
    assert bare_cluster.kubectl("version").count(version_of(chosen(KUBERNETES))) == 2, "of client and server"


def test_a_controller_manager_that_ended_while_the_control_plane_starts_is_started_anew(bare_cluster: Cluster) -> None:
    end([next(part for part in bare_cluster.folder.control_plane() if part.name == "kube-controller-manager")], 0)
    bare_cluster.kube.delete("serviceaccounts", "default", "default")
    bare_cluster.wait_for_control_plane()
    assert len(bare_cluster.folder.control_plane()) == CONTROL_PLANE_PARTS


def test_pods_of_a_deployment_run_on_the_nodes_of_their_type(bare_cluster: Cluster, namespace: str) -> None:
    bare_cluster.apply(deployment("plain", "c5n.2xlarge", 3), namespace)

    def placed() -> list[str] | Unmet:
        pods = bare_cluster.pods(namespace)
        running = [pod["spec"]["nodeName"] for pod in pods if pod["status"]["phase"] == "Running"]
        return running if len(running) == 3 else Unmet([pod["status"] for pod in pods])

    nodes = wait_until(placed, limits.REACTION, "3 pods to run")
    assert all(name.startswith("kairos-c5n-2xlarge-") for name in nodes)


def test_the_apiserver_refuses_in_its_own_words(bare_cluster: Cluster, namespace: str) -> None:
    broken = deployment("broken", "t3.xlarge", -1)
    with pytest.raises(ApiError, match=r"spec\.replicas.*must be greater than or equal to 0"):
        bare_cluster.kube.create(broken, namespace)


def test_a_watch_that_ends_leaves_no_thread_that_reads(bare_cluster: Cluster, namespace: str) -> None:
    seen: list[str] = []
    wrong: list[str] = []

    def follow(name: str) -> None:
        spec = {"containers": [{"name": "main", "image": "none"}]}
        with following(
            bare_cluster.folder.kubeconfig, namespace, lambda _, pod: seen.append(pod["metadata"]["name"]), wrong
        ):
            bare_cluster.kube.create(
                {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}, namespace
            )
            wait_until(lambda: name in seen or Unmet(seen), limits.REACTION, "the pod to be seen")

    for name in ("one", "two", "three"):
        follow(name)
        readers = [thread.name for thread in threading.enumerate() if thread.name == FOLLOWER]
        assert readers == [], "it would read what is sent to the next connection of this file descriptor"
    assert wrong == []


def test_nodes_come_and_go(bare_cluster: Cluster) -> None:
    group = NodeGroup("passing", "passing", 2, cpu="1", memory="1Gi", gpus=Gpus("Tesla-T4", 15360))
    bare_cluster.add_nodes(group)
    bare_cluster.remove_nodes(group)
    assert not {"passing-1", "passing-2"} & {node["metadata"]["name"] for node in bare_cluster.kube.list("nodes")}


def test_no_server_of_the_control_plane_listens_beyond_this_machine(bare_cluster: Cluster) -> None:
    lines = processes_of(bare_cluster.folder.path)
    assert len(lines) >= 5
    open_to_all = [line for line in lines if "0.0.0.0" in line]  # noqa: S104
    assert not open_to_all, "etcd without a password would be open to the network"


def test_two_clusters_start_side_by_side_and_leave_no_process(state_root: Path, toolset: Toolset) -> None:
    paths = [state_root / f"beside-{os.getpid()}-{number}" for number in (1, 2)]
    owner = ProcessRecord.of("pytest", os.getpid())

    def start(path: Path) -> Cluster:
        return Cluster.start(path, owner=owner, toolset=toolset)

    with ThreadPoolExecutor(2) as pool:
        starting = [pool.submit(start, path) for path in paths]
        clusters = [future.result() for future in starting]
    try:
        assert not set(clusters[0].ports.all()) & set(clusters[1].ports.all())
        clusters[0].kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "only-here"}})
        assert clusters[1].kube.find("namespaces", "only-here") is None
    finally:
        for cluster in clusters:
            cluster.stop()
    assert [processes_of(path) for path in paths] == [[], []]
    assert not any(path.exists() for path in paths)


def test_a_cluster_whose_start_fails_leaves_nothing(
    state_root: Path, toolset: Toolset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: Cluster) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Cluster, "wait_for_control_plane", fails)
    path = state_root / f"failing-{os.getpid()}"
    with pytest.raises(KeyboardInterrupt):
        Cluster.start(path, toolset=toolset)
    assert processes_of(path) == []
    assert not path.exists()


OWNER = """
import os, sys
from pathlib import Path
from harness.cluster import Cluster
from harness.components import ROOT
from harness.processes import ProcessRecord
from harness.reaper import watch
path = Path(sys.argv[1])
reaper = watch(path)
cluster = Cluster.start(path, owner=ProcessRecord.of("owner", os.getpid()))
print("up", flush=True)
sys.stdin.read()
"""


def test_a_cluster_whose_owner_is_killed_is_stopped_all_the_same(state_root: Path, toolset: Toolset) -> None:
    path = state_root / f"orphan-{os.getpid()}"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "e2e")}
    command = [sys.executable, "-c", OWNER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        assert len(StateFolder(path).control_plane()) == 5
        owner.kill()
    deadline = time.monotonic() + limits.REACTION
    while (left := processes_of(path)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def test_a_path_with_a_blank_is_refused_before_anything_starts(tmp_path: Path, toolset: Toolset) -> None:
    with pytest.raises(OSError, match="splits paths at blanks"):
        Cluster.start(tmp_path / "my state", toolset=toolset)
    assert processes_of(tmp_path) == []
