"""A cluster for the demo and for tests: control plane, nodes, hetserve's components.

with Cluster.started(folder) as cluster:
    cluster.add_nodes(HETSEV)
    cluster.install_hetserve()
    cluster.apply("manifests/samples/rm2.yaml")
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from harness import components, controlplane, tools
from harness.components import Component
from harness.kube import Kube, Manifest, read_manifests
from harness.nodes import FakeCluster, NodeGroup, manifests_of
from harness.ports import PortBlock
from harness.processes import ProcessRecord, end, spawn, tail
from harness.state import COMPONENT_GRACE, ClusterState, StateFolder
from harness.view import ClusterViews
from harness.waiting import Unmet, wait_until

CONTROL_PLANE_PARTS: Final = 5
CONTROL_PLANE_TIMEOUT: Final = 60.0
COMPONENT_TIMEOUT: Final = 45.0
NODE_TIMEOUT: Final = 60.0
UNREADY_TAINTS: Final = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})


class Cluster(ClusterViews):
    """A running control plane with its state folder."""

    def __init__(self, folder: StateFolder, state: ClusterState, toolset: tools.Toolset) -> None:
        self.folder = folder
        self.state = state
        self.tools = toolset
        super().__init__(Kube(folder.kubeconfig), state.ports)

    @classmethod
    def start(cls, path: Path, *, owner: ProcessRecord | None = None, toolset: tools.Toolset | None = None) -> Cluster:
        """Starts a control plane with its state in `path`, which must not exist.

        `owner`: the process whose end makes it stale. A failure stops everything.
        """
        if any(character.isspace() for character in str(path)):
            raise OSError(f"{path}: kwokctl splits paths at blanks; work in a folder whose path has none")
        toolset = toolset or tools.provide()
        folder = StateFolder(path)
        if folder.load() is not None:
            raise FileExistsError(f"{path} holds the state of a cluster already; stop that one first")
        claim = PortBlock.claim()
        try:
            state = ClusterState(claim.ports, owner)
            folder.save(state)
            controlplane.start(toolset, claim.ports, folder)
            cluster = cls(folder, state, toolset)
            cluster.wait_for_control_plane()
        except BaseException:
            folder.destroy()
            raise
        finally:
            claim.release()
        return cluster

    @classmethod
    @contextmanager
    def started(cls, path: Path, *, owner: ProcessRecord | None = None) -> Iterator[Cluster]:
        """A control plane during the block."""
        cluster = cls.start(path, owner=owner)
        try:
            yield cluster
        finally:
            cluster.stop()

    @classmethod
    def attached(cls, path: Path, toolset: tools.Toolset) -> Cluster | None:
        """The cluster in `path` if its whole control plane runs, else None."""
        folder = StateFolder(path)
        state = folder.load()
        if state is None or len(folder.control_plane()) < CONTROL_PLANE_PARTS or not folder.kubeconfig.exists():
            return None
        return cls(folder, state, toolset)

    def stop(self) -> None:
        """Stops every process of this cluster and removes its state."""
        self.kube.close()
        self.folder.destroy()

    def wait_for_control_plane(self) -> None:
        """Waits for the apiserver and the default service account."""
        wait_until(
            lambda: self.kube.request("GET", "/readyz").text == "ok",
            CONTROL_PLANE_TIMEOUT,
            "the apiserver to be ready",
        )
        wait_until(
            lambda: self.kube.find("serviceaccounts", "default", "default") is not None,
            CONTROL_PLANE_TIMEOUT,
            "the controller manager to make the default service account",
        )

    # Nodes and objects

    def add_nodes(self, *nodes: FakeCluster | NodeGroup) -> None:
        """Adds missing nodes and waits until they accept pods."""
        groups = (n if isinstance(n, FakeCluster) else FakeCluster(n.name, (n,)) for n in nodes)
        manifests = manifests_of(groups)
        names = {manifest["metadata"]["name"] for manifest in manifests}
        present = {node["metadata"]["name"] for node in self.kube.list("nodes")}
        self.kube.apply_all(m for m in manifests if m["metadata"]["name"] not in present)

        def ready() -> bool | Unmet:
            unready = sorted(
                node["metadata"]["name"]
                for node in self.kube.list("nodes")
                if node["metadata"]["name"] in names and not _schedulable(node)
            )
            return not unready or Unmet(unready)

        wait_until(ready, NODE_TIMEOUT, f"{len(names)} nodes to be ready and untainted")

    def remove_nodes(self, *nodes: FakeCluster | NodeGroup) -> None:
        """Deletes nodes."""
        for group in nodes:
            for name in group.node_names():
                self.kube.delete("nodes", name)

    def apply(self, what: str | Path | Manifest | Iterable[Manifest], namespace: str | None = None) -> list[Manifest]:
        """Server-side apply of manifests, or of the YAML file or folder at a path."""
        if isinstance(what, str | Path):
            path = components.ROOT / what
            documents = read_manifests(*(sorted(path.glob("*.yaml")) if path.is_dir() else [path]))
        else:
            documents = [what] if isinstance(what, dict) else list(what)
        return self.kube.apply_all(documents, namespace)

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Output of kubectl as the administrator; with `check`, raises RuntimeError."""
        done = subprocess.run(
            [self.tools["kubectl"], "--kubeconfig", str(self.folder.kubeconfig), *arguments],
            input=stdin,
            env=controlplane.environment(self.folder),
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout if check else done.stdout + done.stderr

    # hetserve

    def install_crds(self) -> None:
        self.apply("crds")
        self._wait_for_crds()

    def install_hetserve(self, values: Mapping[str, Any] | None = None, *, fresh: bool = True) -> None:
        """Installs the chart, starts all components, waits until ready; `values`: laid over the harness's."""
        self.install_chart(values, fresh=fresh)
        for component in self.components():
            self.start_component(component.name, wait=False)
        for component in self.components():
            self.wait_for_component(component.name)

    def install_chart(self, values: Mapping[str, Any] | None = None, *, fresh: bool = True) -> None:
        """Installs or upgrades the chart, and writes the accounts' kubeconfigs."""
        given = components.merged(components.values(self.ports, self.folder), values or {})
        env = controlplane.environment(self.folder)
        components.install_chart(self.tools, self.folder, given, env, fresh=fresh)
        self._wait_for_crds()
        for component in self.components():
            components.write_account(self.kube, self.folder, component.name)

    def components(self) -> tuple[Component, ...]:
        return components.components(self.ports)

    def component(self, name: str) -> Component:
        """A component, or a standby, by its process's name with or without ``hetserve-``."""
        full = name if name.startswith("hetserve-") else f"hetserve-{name}"
        every = (*self.components(), *components.standbys(self.ports))
        return next(component for component in every if component.process == full)

    def start_component(self, name: str, *, wait: bool = True, descriptors: int | None = None) -> None:
        """Starts a component unless it runs; `descriptors`: limit of its open files."""
        component = self.component(name)
        if self.running(name):
            return
        components.write_settings(self.kube, self.folder, component)
        command = component.command(self.folder, self.tools, self.ports)
        log = self.folder.log(component.process)
        env = controlplane.environment(self.folder)
        record = spawn(component.process, command, log, env, descriptors=descriptors)
        self.state = self.state.with_process(record)
        self.folder.save(self.state)
        if wait:
            self.wait_for_component(name)

    def wait_for_component(self, name: str) -> None:
        """Waits for readiness. Raises RuntimeError with the end of its log."""
        component = self.component(name)

        def ready() -> bool | Unmet:
            if not self.running(name):
                log = tail(self.folder.log(component.process))
                raise RuntimeError(f"{component.process} ended before it was ready:\n{log}")
            # Self-signed.
            answer = httpx.get(component.ready_url, verify=False, timeout=5.0, trust_env=False)  # noqa: S501
            if answer.status_code != 200:
                return Unmet(f"{answer.status_code} {answer.text}")
            return component.port is None or self._anybody_listens(component.port)

        wait_until(ready, COMPONENT_TIMEOUT, f"{component.process} to be ready")

    def refresh_settings(self) -> set[str]:
        """Writes installed settings; names of the components whose settings changed."""
        changed = set()
        for component in self.components():
            path = component.settings_file(self.folder)
            before = path.read_text() if path.exists() else None
            components.write_settings(self.kube, self.folder, component)
            if path.read_text() != before:
                changed.add(component.name)
        return changed

    def running(self, name: str) -> bool:
        record = self.state.process(self.component(name).process)
        return record is not None and record.alive()

    def signal_component(self, name: str, number: int) -> None:
        """Send a signal to a component's process."""
        record = self.state.process(self.component(name).process)
        assert record is not None, f"{name} was never started"
        os.kill(record.pid, number)

    def stop_component(self, name: str) -> None:
        """Sends SIGTERM. Raises AssertionError if the component does not end in time."""
        record = self.state.process(self.component(name).process)
        killed = end([record] if record else [], grace=COMPONENT_GRACE)
        assert not killed, f"{name} did not end within {COMPONENT_GRACE:g} s of SIGTERM"

    def kill_component(self, name: str) -> None:
        record = self.state.process(self.component(name).process)
        end([record] if record else [], grace=0)

    def restart_component(self, name: str) -> None:
        self.stop_component(name)
        self.start_component(name)

    def component_logs(self, lines: int = 60) -> dict[str, str]:
        """End of each component's log, by name."""
        every = (*self.components(), *components.standbys(self.ports))
        return {c.process: tail(self.folder.log(c.process), lines) for c in every}

    @staticmethod
    def _anybody_listens(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((components.HOST, port)) == 0

    def _wait_for_crds(self) -> None:
        def established() -> bool | Unmet:
            crds = {crd["metadata"]["name"]: crd.get("status", {}) for crd in self.kube.list("crds")}
            waiting = sorted(name for name, status in crds.items() if not _is_true(status, "Established"))
            return (bool(crds) and not waiting) or Unmet(waiting or "no CRD at all")

        wait_until(established, NODE_TIMEOUT, "the CRDs to be established")


def _schedulable(node: Manifest) -> bool:
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return _is_true(node.get("status", {}), "Ready") and not taints & UNREADY_TAINTS


def _is_true(status: Manifest, condition: str) -> bool:
    return any(c["type"] == condition and c["status"] == "True" for c in status.get("conditions") or [])
