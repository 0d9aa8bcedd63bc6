"""A kind cluster of real containers with the shipped images: `python -m harness.kind up`, or `down`.

KINDLAB_CACHE    folder of all that the lab builds; default: ~/.cache/kindlab
KINDLAB_CLUSTER  name of the cluster; default: kindlab
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml
from images import build
from images.engines import Engine, EngineError, choose
from images.lock import OF_COMPONENTS

from harness.components import CHART, RELEASE, ROOT
from harness.kube import Kube, Manifest
from harness.nodes import NodeGroup
from harness.pins import HELM
from harness.tools import provide
from harness.waiting import Unmet, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

LAB: Final = ROOT / "e2e" / "kind" / "lab" / "kindlab.sh"
NAME: Final = os.environ.get("KINDLAB_CLUSTER", "kindlab")
HELM_TIMEOUT: Final = "300s"
RESTRICTED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}


def cache() -> Path:
    """Folder of what the lab builds."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(os.environ.get("KINDLAB_CACHE") or home / "kindlab")


def lab(*stages: str) -> None:
    """Runs stages of the lab's script, one after the other. Raises CalledProcessError."""
    for stage in stages:
        subprocess.run([LAB, stage], check=True)


class KindCluster:
    """A running cluster; kubeconfig: of its administrator."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.kube = Kube(kubeconfig)

    @classmethod
    def attached(cls) -> KindCluster:
        """The cluster that `make e2e-kind` brings up. Raises LookupError if there is none."""
        kubeconfig = cache() / f"kubeconfig-{NAME}"
        if not kubeconfig.exists():
            raise LookupError(f"no kind cluster {NAME}: make e2e-kind brings one up")
        return cls(kubeconfig)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """Output of kubectl as the administrator. Raises RuntimeError with its message."""
        kubectl = str(cache() / "bin" / "kubectl")
        return _output(kubectl, "--kubeconfig", str(self.kubeconfig), *arguments, stdin=stdin)

    def helm(self, *arguments: str) -> str:
        """Output of helm in the system's namespace. Raises RuntimeError with its message."""
        helm = provide((HELM,))["helm"]
        return _output(helm, "--kubeconfig", str(self.kubeconfig), "--namespace", SYSTEM_NAMESPACE, *arguments)

    def install(self, values: Mapping[str, Any] | None = None) -> None:
        """`helm install --wait` of the chart with the images, in a namespace that enforces the restricted standard."""
        labels = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE, "labels": RESTRICTED}}
        self.kube.apply_all([labels])
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({**image_values(), **(values or {})}, file)
            file.flush()
            self.helm("install", RELEASE, str(CHART), "--wait", "--timeout", HELM_TIMEOUT, "--values", file.name)

    def uninstall(self) -> None:
        """`helm uninstall --wait`, if hetserve is installed."""
        if any(each["name"] == RELEASE for each in json.loads(self.helm("list", "--output", "json"))):
            self.helm("uninstall", RELEASE, "--wait", "--timeout", HELM_TIMEOUT)

    def add_nodes(self, *groups: NodeGroup) -> None:
        """Adds simulated nodes and waits until they are Ready."""
        manifests = [manifest for group in groups for manifest in group.manifests()]
        self.kube.apply_all(manifests)
        names = {manifest["metadata"]["name"] for manifest in manifests}

        def ready() -> bool | Unmet:
            found = {node["metadata"]["name"] for node in self.kube.list("nodes") if is_true(node, "Ready")}
            return names <= found or Unmet(sorted(names - found))

        wait_until(ready, 60, f"{len(names)} simulated nodes to be Ready")

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


def is_true(item: Manifest, condition: str) -> bool:
    """Whether an object's status says that a condition holds."""
    conditions = item.get("status", {}).get("conditions") or []
    return any(each["type"] == condition and each["status"] == "True" for each in conditions)


def image_values() -> dict[str, Any]:
    """Values of the chart that name the images built here."""
    made: dict[str, Any] = {}
    for component in ("operator", "extender"):
        repository, _, tag = build.tag_of(component).rpartition(":")
        made[component] = {"image": {"repository": repository, "tag": tag, "pullPolicy": "Never"}}
    return made


def load(engine: Engine, tags: Iterable[str]) -> None:
    """Puts images into the nodes' stores. Raises EngineError, or RuntimeError with kind's message."""
    for tag in tags:
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "image.tar"
            engine.save(tag, archive)
            _output(str(cache() / "bin" / "kind"), "load", "image-archive", str(archive), "--name", NAME)


def up() -> None:
    """Brings up the cluster with KWOK and the images; what is there already is kept."""
    lab("engine", "image", "up", "kwok")
    tags = build.build(list(OF_COMPONENTS))
    load(choose(os.environ.get("ENGINE") or None), tags)


def _output(*command: str, stdin: str | None = None) -> str:
    done = subprocess.run(command, check=False, input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


def main(words: list[str]) -> int:
    """Command line."""
    if words not in (["up"], ["down"]):
        sys.stderr.write(f"{__doc__}\n")
        return 2
    try:
        if words == ["up"]:
            up()
        else:
            lab("down")
    except (EngineError, RuntimeError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
