"""A kind cluster of real containers with the shipped images: `python -m harness.kind up`.

up       the cluster, with KWOK, the images, and those of the previous release
cluster  only the cluster, its nodes Ready
short    into the cluster that is there, the extender's image alone: what takes longest is left out
down     deletes the cluster

Exit codes: 3, no cluster is there or comes up, which says nothing of hetserve; 1, another failure; 2, no such command.

KINDLAB_CACHE       folder of all that the lab builds; default: ~/.cache/kindlab
KINDLAB_CLUSTER     name of the cluster; default: kindlab
KINDLAB_WORKERS     nodes beside the control plane's; default: 2, so that one can be drained
KINDLAB_NODE_IMAGE  a public node image, such as kindest/node:v1.35.8, in place of the lab's own
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml
from images import build
from images.engines import Engine, EngineError, choose

from harness import limits, previous
from harness.commands import HETSERVE
from harness.components import CHART, RELEASE, ROOT, merged
from harness.kube import Kube, Manifest, is_true
from harness.nodes import NodeGroup
from harness.pins import HELM
from harness.tools import provide
from harness.waiting import Unmet, WaitTimeoutError, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

LAB: Final = ROOT / "e2e" / "kind" / "lab" / "kindlab.sh"
NAME: Final = os.environ.get("KINDLAB_CLUSTER", "kindlab")
HELM_TIMEOUT: Final = "300s"
ROLLOUT_SECONDS: Final = 120.0
"""In which extender and scheduler of the short form are there."""
NODES_SECONDS: Final = 60.0
NO_CLUSTER: Final = 3
"""Exit code."""
RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
IN_PODS: Final = ("operator", "extender", "router")
"""Components whose images run in the cluster."""
WORKER: Final = "worker"
"""Whose image the instances of a service run."""
COMMAND_LINE: Final = "cli"
"""Whose image runs beside it."""
HELD: Final = "hetserve.io/held-images"
"""Annotation of a node with the identities of the images that were loaded into it."""
REAL: Final = "hetserve.io/real-node"
"""Label of the nodes that run containers, but for the control plane's."""
_SIMULATED: Final = ("kwok.x-k8s.io/node", "fake")


class NoClusterError(Exception):
    """No cluster is there: what is ours was not reached."""


def cache() -> Path:
    """Folder of what the lab builds."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("KINDLAB_CACHE") or home / "kindlab")


def lab(*stages: str) -> None:
    """Runs stages of the lab's script, one after the other. Raises CalledProcessError."""
    environment = {"KINDLAB_WORKERS": "2", **os.environ}
    for stage in stages:
        subprocess.run([LAB, stage], check=True, env=environment)


class KindCluster:
    """A running cluster; kubeconfig: of its administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.kube = Kube(kubeconfig)

    @classmethod
    def attached(cls) -> KindCluster:
        """The cluster that `make e2e-kind` brings up. Raises NoClusterError if there is none."""
        kubeconfig = cache() / f"kubeconfig-{NAME}"
        if not kubeconfig.exists():
            raise NoClusterError(f"no kind cluster {NAME}: make e2e-kind brings one up")
        return cls(kubeconfig)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Output of kubectl as the administrator. Raises RuntimeError with its message."""
        kubectl = str(cache() / "bin" / "kubectl")
        return _output(kubectl, "--kubeconfig", str(self.kubeconfig), *arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        """Output of helm in the system's namespace. Raises RuntimeError with its message."""
        helm = provide((HELM,))["helm"]
        return _output(helm, "--kubeconfig", str(self.kubeconfig), "--namespace", SYSTEM_NAMESPACE, *arguments)

    def diagnosed(self) -> dict[str, tuple[str, str]]:
        """(level, what) of the first finding of each check of `hetserve doctor`, whatever its exit code."""
        command = [str(HETSERVE), "doctor", "-o", "json", "--kubeconfig", str(self.kubeconfig)]
        said = json.loads(
            subprocess.run(command, capture_output=True, text=True, check=False, timeout=limits.COMMAND).stdout
        )
        return {one["check"]: (one["level"], one["what"]) for one in reversed(said["findings"])}

    def shown(self) -> str:
        """What there is of hetserve, for who reads that a scenario failed: objects, and the last words of each pod."""
        there = "pods,services,endpointslices,leases"
        said = [self._said("get", there, "--output", "wide", "--show-labels")]
        said.append(self._said("get", "services,endpointslices", "--output", "yaml"))
        for pod in self.pods(SYSTEM_NAMESPACE):
            name = pod["metadata"]["name"]
            said += [f"--- {name}", self._said("logs", name, "--all-containers", "--tail", "40")]
        return "\n".join(said)

    def _said(self, *words: str) -> str:
        try:
            return self.kubectl("--namespace", SYSTEM_NAMESPACE, *words)
        except RuntimeError as error:
            return str(error)

    def install(
        self,
        values: Mapping[str, Any] | None = None,
        *,
        earlier: bool = False,
        waits: bool = True,
        flags: tuple[str, ...] = (),
    ) -> None:
        """`helm install` of the chart with the images, in a namespace that enforces the restricted standard.

        earlier: the previous release. waits: until all is ready (`--wait`). flags: more of helm's. Raises RuntimeError
        with helm's message.
        """
        self._namespace()
        self._release("install", values, earlier=earlier, waits=waits, flags=flags)

    def upgrade(self, values: Mapping[str, Any] | None = None) -> None:
        """`helm upgrade --wait` to the chart with the images. Raises RuntimeError with helm's message."""
        self._release("upgrade", values)

    def install_placement(self) -> None:
        """`helm install`, and waits for extender and scheduler alone: the short form has no image of the operator."""
        self._namespace()
        self._release("install", None, waits=False)
        within = f"{ROLLOUT_SECONDS:.0f}s"
        status = ("rollout", "status", "deployment/hetserve-scheduler", "--timeout", within)
        self.kubectl("--namespace", SYSTEM_NAMESPACE, *status)

    def holds(self, component: str) -> bool:
        """Whether nodes have a component's image of today."""
        wanted = build.tag_of(component)
        images = [image for node in self.kube.list("nodes") for image in node["status"].get("images", [])]
        return any(wanted in (image.get("names") or []) for image in images)

    def _namespace(self) -> None:
        labels = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE, "labels": RESTRICTED}}
        self.kube.apply_all([labels])

    def _release(
        self,
        verb: str,
        values: Mapping[str, Any] | None,
        *,
        earlier: bool = False,
        waits: bool = True,
        flags: tuple[str, ...] = (),
    ) -> None:
        chart, images = (previous.CHART, previous.image_values()) if earlier else (CHART, image_values())
        real = {"nodeSelector": {REAL: "true"}}
        given = merged({**images, **real, **({} if earlier else {"test": real})}, values or {})
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump(given, file)
            file.flush()
            given_flags = (*(("--wait", "--timeout", HELM_TIMEOUT) if waits else ()), *flags)
            self.helm(verb, RELEASE, str(chart), *given_flags, "--values", file.name)

    def rollback(self) -> None:
        """`helm rollback --wait` to the revision before. Raises RuntimeError with helm's message."""
        self.helm("rollback", RELEASE, "--wait", "--timeout", HELM_TIMEOUT)

    def installed(self) -> bool:
        """Whether the release is there, in whatever state."""
        # helm keeps a release in Secrets; it says so itself in 0.1 to 1 s, and each scenario asks.
        return bool(self.kube.list("secrets", SYSTEM_NAMESPACE, labels=f"owner=helm,name={RELEASE}"))

    def uninstall(self) -> None:
        """`helm uninstall --wait`, if hetserve is installed."""
        self._uninstall()

    def clear(self) -> None:
        """The same without hooks: what waits at a gate goes on waiting, and no image has to run."""
        self._uninstall("--no-hooks")

    def _uninstall(self, *flags: str) -> None:
        if self.installed():
            self.helm("uninstall", RELEASE, "--wait", "--timeout", HELM_TIMEOUT, *flags)

    def workers(self) -> list[str]:
        """Names of the nodes that run containers of ours."""
        return [node["metadata"]["name"] for node in self.kube.list("nodes", labels=f"{REAL}=true")]

    def label(self, node: str, labels: Mapping[str, str | None]) -> None:
        """Sets labels of a node; None: removes one."""
        self.kube.patch("nodes", node, {"metadata": {"labels": dict(labels)}})

    def add_nodes(self, *groups: NodeGroup) -> None:
        """Adds simulated nodes and waits until they are Ready."""
        # By this label KWOK, a real pod, keeps away from the nodes that it plays.
        labelled = [replace(group, labels=(*group.labels, _SIMULATED)) for group in groups]
        manifests = [manifest for group in labelled for manifest in group.manifests()]
        self.kube.apply_all(manifests)
        names = {manifest["metadata"]["name"] for manifest in manifests}

        def ready() -> bool | Unmet:
            found = {node["metadata"]["name"] for node in self.kube.list("nodes") if is_true(node, "Ready")}
            return names <= found or Unmet(sorted(names - found))

        wait_until(ready, limits.ROLLOUT, f"{len(names)} simulated nodes to be Ready")

    def remove_nodes(self, *groups: NodeGroup) -> None:
        """Deletes simulated nodes."""
        for group in groups:
            for name in group.node_names():
                self.kube.delete("nodes", name)

    def pods(self, namespace: str, component: str | None = None) -> list[Manifest]:
        """Pods of a namespace; component: only those of one of hetserve's Deployments."""
        found = self.kube.list("pods", namespace)
        key = "app.kubernetes.io/component"
        return [pod for pod in found if component is None or pod["metadata"].get("labels", {}).get(key) == component]


def image_values() -> dict[str, Any]:
    """Values of the chart that name the images built here."""
    made: dict[str, Any] = {}
    for component in IN_PODS:
        repository, _, tag = build.tag_of(component).rpartition(":")
        made[component] = {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}}
    return made


def load(engine: Engine, tags: list[str], nodes: list[str]) -> None:
    """Puts images into the stores of nodes. Raises EngineError, or RuntimeError with kind's message."""
    with tempfile.TemporaryDirectory() as folder:
        for archive in engine.save_all(tags, Path(folder)):
            kind = str(cache() / "bin" / "kind")
            _output(kind, "load", "image-archive", str(archive), "--name", NAME, "--nodes", ",".join(nodes))


def cluster() -> None:
    """Brings up the cluster, every node of containers Ready; what is there is kept. Raises NoClusterError."""
    try:
        lab("engine", "image", "up")
        kind = KindCluster.attached()
        wait_until(lambda: _nodes_are_ready(kind), NODES_SECONDS, "every node to be Ready")
        kind.kube.close()
    except (subprocess.CalledProcessError, WaitTimeoutError) as error:
        raise NoClusterError(f"no kind cluster came up: {error}") from error


def up() -> None:
    """Brings up the cluster with KWOK and the images, those of the previous release too; what is there is kept.

    Raises NoClusterError, CalledProcessError, EngineError, or RuntimeError with kind's message.
    """
    _engine()
    # What waits for networks, disks and one processor, while the node image compiles on the others.
    with ThreadPoolExecutor(max_workers=1) as beside:
        images, helm = beside.submit(_images), beside.submit(provide, (HELM,))
        cluster()
        lab("kwok")
        engine, tags = images.result()
        helm.result()
    _load_once(engine, tags, _label_real_nodes())


def _load_once(engine: Engine, tags: list[str], workers: list[str]) -> None:
    """Puts images into the nodes that do not say that they have them. Raises as `load` does."""
    held = ",".join(engine.identity(tag) for tag in tags)
    kind = KindCluster.attached()
    nodes = {node["metadata"]["name"]: node["metadata"].get("annotations", {}) for node in _real_nodes(kind)}
    without = [name for name in workers if nodes[name].get(HELD) != held]
    if without:
        load(engine, tags, without)
    for name in without:
        kind.kube.patch("nodes", name, {"metadata": {"annotations": {HELD: held}}})
    kind.kube.close()


def _images() -> tuple[Engine, list[str]]:
    """Builds the images of today and of the previous release. Returns their engine, and the tags that nodes need."""
    engine = choose(os.environ.get("ENGINE") or None)
    *tags, _ = build.build([*IN_PODS, WORKER, COMMAND_LINE])
    return engine, tags + previous.build_images(engine, previous.IN_PODS)


def _engine() -> None:
    """Starts an engine, and installs what makes bases of images where these are made. Raises NoClusterError."""
    try:
        lab("engine", *(("bootstrap",) if os.environ.get("BASE") == "debian" else ()))
    except subprocess.CalledProcessError as error:
        raise NoClusterError(f"no container engine starts: {error}") from error


def short() -> None:
    """Brings the extender's image into the cluster that is there.

    Raises NoClusterError, CalledProcessError, EngineError, or RuntimeError with kind's message.
    """
    workers = _label_real_nodes()
    load(choose(os.environ.get("ENGINE") or None), build.build(["extender"]), workers)


def _real_nodes(kind: KindCluster, labels: str = "") -> list[Manifest]:
    nodes = kind.kube.list("nodes", labels=labels)
    return [node for node in nodes if _SIMULATED[0] not in node["metadata"].get("labels", {})]


def _nodes_are_ready(kind: KindCluster) -> bool | Unmet:
    nodes = _real_nodes(kind)
    waiting = [node["metadata"]["name"] for node in nodes if not is_true(node, "Ready")]
    return (bool(nodes) and not waiting) or Unmet(", ".join(waiting) or "no node")


def _label_real_nodes() -> list[str]:
    """Names of the nodes that run containers of ours, labelled so."""
    kind = KindCluster.attached()
    for node in _real_nodes(kind, labels="!node-role.kubernetes.io/control-plane"):
        kind.label(node["metadata"]["name"], {REAL: "true"})
    workers = kind.workers()
    kind.kube.close()
    return workers


def _output(*command: str, stdin: str | None = None) -> str:
    done = subprocess.run(command, check=False, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


COMMANDS: Final[Mapping[str, Callable[[], None]]] = {
    "up": up,
    "cluster": cluster,
    "short": short,
    "down": lambda: lab("down"),
}


def main(words: list[str]) -> int:
    """Command line."""
    if len(words) != 1 or words[0] not in COMMANDS:
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        COMMANDS[words[0]]()
    except NoClusterError as error:
        sys.stderr.write(f"Error: {error}\n")
        return NO_CLUSTER
    except (EngineError, RuntimeError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
