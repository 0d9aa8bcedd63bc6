"""Promise: what the pages tell a reader to type on a cluster works as it stands there.

The commands and their order are in tests/support/documented_commands.py. Each runs in a shell of a reader with the
kubeconfig of an administrator; namespace `team` is the current one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
import yaml

from documented import FENCED
from documented_commands import OFFLINE, ON_A_CLUSTER, Stage
from harness import controlplane, limits
from harness.arrivals import pod
from harness.cluster import Cluster
from harness.components import HOST, ROOT
from harness.failover import ELECTED
from harness.kube import Manifest, read_manifests
from harness.nodes import BOTH, NodeGroup
from harness.waiting import wait_until
from hetserve.api.names import (
    LABEL_SERVICE,
    QUEUE_GATE,
    SYSTEM_NAMESPACE,
)
from readers_desk import DAY, decisions_of_resnet50, runs_of_sharing

TEAM: Final = "team"
SERVICE: Final = "resnet50"
STALLED: Final = "stalled"
UNINSTALL: Final = ON_A_CLUSTER[Stage.GOING][-1]
ANSWERS: Final[Mapping[str, str]] = {"hetserve queue release --all": "y\n"}
"""What the reader types where a command asks."""
SILENT: Final = ("--for=delete",)
"""Parts of commands that have nothing to say when all is well."""
LOGGED: Final = {"extender": {"placementLog": "4Mi"}}


class Reader:
    """Runs documented commands in a folder of its own, and remembers which."""

    def __init__(self, cluster: Cluster, desk: Path) -> None:
        self.cluster, self.desk = cluster, desk
        self.ran: list[str] = []
        self.words: dict[str, str] = {}
        """Placeholders of the pages, and what they stand for now."""
        ports = cluster.ports
        self.words |= {"8888": str(ports.extender), "8889": str(ports.extender_probe)}
        self.words |= {"hetserve-twin": f"hetserve-twin --port {ports.twin} --host {HOST}"}
        self.words |= {"~/.kube/config": str(cluster.folder.kubeconfig), "FILE": "extender.kubeconfig"}
        for name in ("charts", "crds", "manifests"):
            (desk / name).symlink_to(ROOT / name)
        (desk / "bin").mkdir()
        for tool in ("helm", "kubectl"):
            (desk / "bin" / tool).symlink_to(cluster.tools[tool])

    def line(self, command: str) -> str:
        """The command with the placeholders replaced."""
        found = "|".join(re.escape(word) for word in sorted(self.words, key=len, reverse=True))
        return re.sub(rf"(?<![\w-])(?:{found})(?![\w-])", lambda word: self.words[word[0]], command)

    def environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(self.desk / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        log = f"http://{HOST}:{self.cluster.ports.extender_probe}/log"
        return controlplane.environment(self.cluster.folder) | {"PATH": path, "LOG": log}

    def run(self, command: str) -> str:
        """Runs it; what it prints, or the end of the file that it writes."""
        shell = ["bash", "-c", f"set -o pipefail; {self.line(command)}"]
        done = subprocess.run(
            shell,
            cwd=self.desk,
            env=self.environment(),
            input=ANSWERS.get(command, ""),
            capture_output=True,
            text=True,
            timeout=limits.SESSION,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{said[-4000:]}"
        written = [self.desk / name for name in re.findall(r"(?: > | -o )(\S+\.\w+)$", command)]
        assert said or written or any(part in command for part in SILENT), f"{command}: no output"
        assert [path.name for path in written if path.stat().st_size == 0] == []
        self.ran.append(command)
        print(f"$ {command}\n{said[-400:]}")
        return said

    def run_all(self, stage: Stage, before: Mapping[str, Callable[[], object]] | None = None) -> dict[str, str]:
        """Runs the commands of a stage; what each said. before: what a command needs, by a part of the command."""
        said = {}
        for command in ON_A_CLUSTER[stage]:
            for part, prepare in (before or {}).items():
                if part in command:
                    prepare()
            said[command] = self.run(command)
        return said

    @contextmanager
    def serving(self, command: str, probe: int) -> Iterator[str]:
        """A process that serves until it is stopped in order, once it is ready: the URL of its probe port.

        Where nobody has run it yet, the twin compiles its loop first.
        """
        url = f"http://{HOST}:{probe}"
        path = self.desk / f"{probe}.log"
        with path.open("w") as log:
            shell = ["bash", "-c", f"exec {self.line(command)}"]
            process = subprocess.Popen(shell, cwd=self.desk, env=self.environment(), stdout=log, stderr=log)
        try:
            wait_until(lambda: _answers(f"{url}/readyz") or process.poll() is not None, limits.CROWD, "it to be ready")
            yield url
            process.terminate()
            code = process.wait(timeout=limits.REACTION)
        finally:
            process.kill()
        said = path.read_text()
        assert code == 0, f"{command}: exit code {code}\n{said[-4000:]}"
        assert said, f"{command}: no output"
        self.ran.append(command)


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(url, timeout=limits.ANSWER, trust_env=False).is_success
    return False


@pytest.fixture
def reader(own_cluster: Cluster, tmp_path: Path) -> Reader:
    own_cluster.add_nodes(*BOTH)
    own_cluster.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})
    own_cluster.kubectl("config", "set-context", "--current", "--namespace", TEAM)
    return Reader(own_cluster, tmp_path)


LIVING: Final = (Stage.LOOKING, Stage.RELEASING, Stage.SERVING)
"""With hetserve installed; helm is asked in the other stages."""


def ran_all(reader: Reader, stages: Collection[Stage]) -> bool:
    return set(reader.ran) >= {row for stage in stages for row in ON_A_CLUSTER[stage]}


@pytest.mark.timeout(limits.LONGEST_TEST)
def test_every_command_for_what_is_installed_does_what_it_is_shown_for(reader: Reader) -> None:
    cluster = reader.cluster
    cluster.install_hetserve(LOGGED | ELECTED)
    place_a_service(reader)
    it_looks_at_what_is_placed(reader)
    cluster.stop_component("extender")
    it_lets_pods_out_of_the_queues(reader)
    it_runs_processes(reader)
    assert ran_all(reader, LIVING)


@pytest.mark.deep
@pytest.mark.timeout(limits.LONGEST_TEST)
def test_every_command_that_installs_upgrades_and_removes_does_what_it_is_shown_for(reader: Reader) -> None:
    it_installs_the_chart(reader)
    it_ends_the_extenders_of_a_deployment(reader)
    reader.cluster.install_hetserve(LOGGED | ELECTED)
    place_a_service(reader)
    it_upgrades_and_goes(reader)
    assert ran_all(reader, set(Stage) - set(LIVING))


def it_installs_the_chart(reader: Reader) -> None:
    (reader.desk / "values.yaml").write_text(values_of_the_page())
    for command in ON_A_CLUSTER[Stage.INSTALLING]:
        assert "STATUS: deployed" in reader.run(command)
        reader.run(UNINSTALL)


def values_of_the_page() -> str:
    """The first values that docs/how-to-run-the-chart.md shows, with a digest."""
    page = (ROOT / "docs" / "how-to-run-the-chart.md").read_text(encoding="utf-8")
    block: str = next(block for language, block in FENCED.findall(page) if language == "yaml")
    assert "<64 hex digits>" in block
    return block.replace("<64 hex digits>", "0" * 64)


def it_ends_the_extenders_of_a_deployment(reader: Reader) -> None:
    reader.run_all(Stage.AS_PODS)
    assert reader.cluster.pods(SYSTEM_NAMESPACE, "app.kubernetes.io/component=scheduler") == []
    reader.run(UNINSTALL)


def place_a_service(reader: Reader) -> None:
    """Service resnet50 of the samples in namespace team, with a decision on record, and one that cannot be planned."""
    cluster = reader.cluster
    sample = read_manifests(ROOT / "manifests" / "samples" / "hetsev.yaml")
    ours = [one for one in sample if one["kind"] == "InstanceType" or one["metadata"]["name"].startswith(SERVICE)]
    for one in ours:
        if one["kind"] != "InstanceType":
            one["metadata"]["namespace"] = TEAM
    service = next(one for one in ours if one["kind"] == "InferenceService")
    service["spec"]["load"]["expectedQPS"] = 10
    service["spec"]["instanceTypes"] = {"names": ["hetsev-t4"]}  # few plans to try
    stalled = yaml.safe_load(yaml.safe_dump(service))
    stalled["metadata"]["name"] = stalled["spec"]["model"]["name"] = STALLED
    cluster.apply([*ours, stalled])
    cluster.wait_for_condition("hisvc", SERVICE, TEAM, "Ready", timeout=limits.CROWD)
    uid = cluster.get("hisvc", SERVICE, TEAM)["metadata"]["uid"]
    cluster.kube.create(decisions_of_resnet50(uid))


def it_looks_at_what_is_placed(reader: Reader) -> None:
    cluster = reader.cluster
    pod = cluster.service_pods(SERVICE, TEAM)[0]["metadata"]["name"]
    reader.words |= {"NAME": SERVICE, "resnet50-hetsev-t4-cb1947-6b5f45f4cf-2xw4m": pod}
    cluster.apply(pod_of_the_leader(cluster))
    (reader.desk / "runs.csv").write_text(runs_of_sharing())
    measured = next(row for row in OFFLINE if row.startswith("hetserve profile fit runs.csv") and ">" in row)
    before: dict[str, Callable[[], object]] = {
        "=Stalled": lambda: reader.words.update(NAME=STALLED),
        "apply -f profile.yaml": lambda: in_a_shell(reader, measured),
        "annotate node gpu-7": lambda: new_node(cluster, "gpu-7"),
    }
    said = reader.run_all(Stage.LOOKING, before)
    told = {part: text for command, text in said.items() for part in ("why ", "explain", "replay -") if part in command}
    assert f"pod {TEAM}/{pod}" in told["why "]
    assert "decided   " in told["why "]
    assert f"service {TEAM}/{SERVICE}" in told["explain"]
    assert "result    identical" in told["replay -"]
    assert json.loads((reader.desk / "dump.json").read_text())["log"], "it came over a forwarded port"


def pod_of_the_leader(cluster: Cluster) -> Manifest:
    """A pod as the leading extender's, whose probe port is that of our process."""
    labels = {"app.kubernetes.io/name": "hetserve", "app.kubernetes.io/component": "scheduler"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "extender-1", "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "spec": {
            "nodeName": cluster.kube.list("nodes")[0]["metadata"]["name"],
            "containers": [{"name": "extender", "image": "none"}],
        },
    }


def in_a_shell(reader: Reader, command: str) -> None:
    subprocess.run(
        ["bash", "-c", command], cwd=reader.desk, env=reader.environment(), check=True, timeout=limits.COMMAND
    )


def new_node(cluster: Cluster, name: str) -> None:
    (node,) = NodeGroup("gpu", "gpu", 1, cpu="8", memory="32Gi").manifests()
    node["metadata"]["name"] = name
    cluster.kube.delete("nodes", name)
    wait_until(lambda: cluster.kube.find("nodes", name) is None, limits.REACTION, f"node {name} to be gone")
    cluster.kube.create(node)


def waiting(cluster: Cluster, *names: str) -> None:
    """Makes pods that wait at our gate; those that were there before go."""
    for name in names:
        cluster.kube.delete("pods", name, TEAM, grace=0)
        cluster.kube.create(pod(name, TEAM, 1024, {}, QUEUE_GATE))


def it_lets_pods_out_of_the_queues(reader: Reader) -> None:
    cluster = reader.cluster
    before: dict[str, Callable[[], object]] = {
        "my-pod": lambda: waiting(cluster, "my-pod"),
        "--all": lambda: waiting(cluster, "one", "two"),
    }
    said = reader.run_all(Stage.RELEASING, before)
    assert "2 released" in said["hetserve queue release --all"]
    held = [pod["metadata"]["name"] for pod in cluster.pods(TEAM) if pod["spec"].get("schedulingGates")]
    assert held == []


def it_runs_processes(reader: Reader) -> None:
    """An extender beside the scheduler that leads, and the load twin."""
    cluster = reader.cluster
    component = cluster.component("extender")
    (reader.desk / "settings.yaml").write_text(component.settings_file(cluster.folder).read_text())
    (reader.desk / "extender.kubeconfig").symlink_to(cluster.folder.account(component.account))
    (reader.desk / "day.csv").write_text(DAY)
    extender, twin = ON_A_CLUSTER[Stage.SERVING]
    ports = cluster.ports
    with reader.serving(extender, ports.extender_probe) as url:
        wait_until(lambda: leads(url), limits.REACTION, "the extender to lead")
    with reader.serving(twin, ports.twin):
        pass


def leads(url: str) -> bool:
    return "hetserve_leader 1.0" in httpx.get(f"{url}/metrics", timeout=limits.ANSWER, trust_env=False).text


def it_upgrades_and_goes(reader: Reader) -> None:
    cluster = reader.cluster
    before = {pod["metadata"]["uid"] for pod in cluster.service_pods(SERVICE, TEAM)}
    reader.run_all(Stage.GOING)
    kept: list[dict[str, Any]] = yaml.safe_load((reader.desk / "hetserve-objects.yaml").read_text())["items"]
    assert {one["kind"] for one in kept} == {"InstanceType", "ModelProfile", "InferenceService"}
    assert cluster.kube.find("configmaps", "hetserve-extender", SYSTEM_NAMESPACE) is None
    after = {pod["metadata"]["uid"] for pod in cluster.pods(TEAM, LABEL_SERVICE)}
    assert after == before, "services and their pods stay"
