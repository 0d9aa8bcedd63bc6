"""The schedulers that are compared: stock kube-scheduler with the extender of a case, or with none.

none         no extender; hetserve.io/gpu-memory is ignored, so the pods are the same
decide       filter answers with the one node that it reserved; bind is ours
score        filter answers with all nodes that fit, prioritize scores them; bind is ours
no-op one    floor of `decide`: an extender that reads the request and answers with one node of it; no bind
no-op bind   the same, and binds: no ledger, no watch, no fence
no-op all    floor of `score`: one that answers with all nodes, and a score for each; no bind

`decide@FOLDER` is the extender of another checkout, to compare two versions in the same rounds.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml
from benchmarks.placement.results import REPOSITORY

from harness.cluster import Cluster
from harness.files import write_whole
from hetserve.api.names import RESOURCE_GPU_MEMORY, SYSTEM_NAMESPACE

CASES: Final = ("none", "no-op one", "no-op bind", "decide", "no-op all", "score")
HOST: Final = "127.0.0.1"
START_WITHIN: Final = 120.0
_WEIGHT: Final = 1000
"""Of prioritize: plugin scores sum to 1,400 at most."""

Json = dict[str, Any]


@dataclass(slots=True)
class Running:
    """The processes of a case, and the extender's output.

    timed: ours keeps every verb's own time (a twelfth more). processor: the only one that the extender may use.
    """

    timed: bool = False
    processor: int | None = None
    scheduler: int = 0
    extender: int | None = None
    verbs: Json = field(default_factory=dict)


@contextmanager
def extender(cluster: Cluster, case: str, running: Running) -> Iterator[None]:
    """The extender of a case during the block, synced and listening."""
    if case == "none":
        yield
        return
    port = cluster.ports.extender
    name, _, other = case.partition("@")
    out = cluster.folder.path / "verbs.json"
    out.unlink(missing_ok=True)
    command = extender_command(cluster, name, out if running.timed else None)
    with process(cluster, f"extender {name}", command, Path(other or REPOSITORY)) as pid:
        if running.processor is not None:
            os.sched_setaffinity(pid, {running.processor})
        running.extender = pid
        _until_listening(port, pid)
        yield
    running.verbs = json.loads(out.read_text()) if out.exists() else {}


@contextmanager
def scheduler(cluster: Cluster, case: str, running: Running) -> Iterator[None]:
    """The scheduler of a case during the block."""
    component = cluster.component("scheduler")
    config = scheduler_config(cluster, case.partition("@")[0])
    write_whole(component.settings_file(cluster.folder), yaml.safe_dump(config))
    command = component.command(cluster.folder, cluster.tools, cluster.ports)
    with process(cluster, "scheduler", command, REPOSITORY) as pid:
        running.scheduler = pid
        yield


def scheduler_config(cluster: Cluster, case: str) -> Json:
    """The chart's configuration with the extender of the case."""
    text = cluster.kube.get("configmaps", "hetserve-scheduler", SYSTEM_NAMESPACE)["data"]["scheduler.yaml"]
    config: Json = yaml.safe_load(text)
    if case == "none":
        del config["extenders"]
        ignored = {"name": "NodeResourcesFit", "args": {"ignoredResources": [RESOURCE_GPU_MEMORY]}}
        config["profiles"][0]["pluginConfig"] = [ignored]
        return config
    stanza = config["extenders"][0]
    if case in {"score", "no-op all"}:
        stanza |= {"prioritizeVerb": "prioritize", "weight": _WEIGHT}
    else:
        stanza.pop("prioritizeVerb", None)
        stanza.pop("weight", None)
    if case in {"no-op one", "no-op all"}:
        del stanza["bindVerb"]
    return config


@contextmanager
def logs_told(cluster: Cluster, case: str) -> Iterator[None]:
    """Adds the ends of the logs to any error."""
    try:
        yield
    except Exception as error:
        for name in (f"extender {case.partition('@')[0]}", "scheduler"):
            log = _log(cluster, name)
            error.add_note(f"{log.name} ends:\n{log.read_text()[-3000:] if log.exists() else 'never written'}")
        raise


def extender_command(cluster: Cluster, case: str, times: Path | None) -> list[str]:
    """Command of a case's extender; `times`: file for every verb's own time."""
    component = cluster.component("extender")
    if case.startswith("no-op"):
        module, shape = "benchmarks.placement.cluster.noop_extender", case.removeprefix("no-op ")
        account = str(cluster.folder.account(component.account))
        port = str(cluster.ports.extender)
        return [sys.executable, "-m", module, "--port", port, "--shape", shape, "--kubeconfig", account]
    write_settings(cluster, case)
    command = component.command(cluster.folder, cluster.tools, cluster.ports)
    if times is None:
        return command
    return [sys.executable, "-m", "benchmarks.placement.cluster.timed_extender", str(times), *command[1:]]


def write_settings(cluster: Cluster, case: str) -> None:
    """Writes the chart's settings in the case's mode."""
    component = cluster.component("extender")
    installed = cluster.kube.get("configmaps", component.name, SYSTEM_NAMESPACE)["data"]["settings.yaml"]
    settings: Json = yaml.safe_load(installed)
    if case == "score":
        settings["mode"] = "score"
    write_whole(component.settings_file(cluster.folder), yaml.safe_dump(settings))


@contextmanager
def process(cluster: Cluster, name: str, command: list[str], checkout: Path) -> Iterator[int]:
    """A process during the block; SIGTERM ends it."""
    roots = ("src", "scheduler_extender", "shell_kit")
    path = os.pathsep.join([*(str(checkout / root) for root in roots), str(REPOSITORY), str(REPOSITORY / "e2e")])
    log = _log(cluster, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        process = subprocess.Popen(
            command, stdout=sink, stderr=subprocess.STDOUT, env=os.environ | {"PYTHONPATH": path}, cwd=REPOSITORY
        )
    try:
        yield process.pid
        if process.poll() is not None:
            raise RuntimeError(f"{name} ended in the middle of a round; its log ends:\n{log.read_text()[-2000:]}")
    finally:
        process.terminate()
        try:
            process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _log(cluster: Cluster, name: str) -> Path:
    return cluster.folder.log(f"bench-{name.replace(' ', '-')}")


def _until_listening(port: int, pid: int) -> None:
    until = time.monotonic() + START_WITHIN
    while time.monotonic() < until:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((HOST, port)) == 0 and synced(port):
                return
        time.sleep(0.05)
    raise TimeoutError(f"the extender (process {pid}) did not answer a filter call within {START_WITHIN:g} s")


def synced(port: int) -> bool:
    """Whether a verb is answered without an error."""
    pod = {"metadata": {"name": "probe", "namespace": "probe", "uid": "probe"}, "spec": {"containers": []}}
    body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": ["probe"]}).encode()
    head = f"POST /filter HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with socket.create_connection((HOST, port), timeout=5.0) as connection:
        connection.sendall(head.encode() + body)
        parts = []
        while part := connection.recv(65536):
            parts.append(part)
    answer = b"".join(parts).partition(b"\r\n\r\n")[2]
    return bool(answer) and not json.loads(answer).get("Error")
