"""A cluster for the demo and for tests: control plane, nodes, hetserve's components.

with Cluster.started(folder) as cluster:
    cluster.add_nodes(HETSEV)
    cluster.install_hetserve()
    cluster.apply("manifests/samples/rm2.yaml")
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx

from harness import beside, components, controlplane, limits, stages, tools
from harness.components import Component
from harness.kube import Kube, Manifest, is_true, read_manifests
from harness.nodes import FakeCluster, NodeGroup, manifests_of
from harness.ports import PortBlock
from harness.processes import ProcessRecord, end, spawn, tail
from harness.state import COMPONENT_GRACE, PART_GRACE, ClusterState, StateFolder
from harness.view import ClusterViews
from harness.waiting import Unmet, WaitTimeoutError, wait_until
from hetserve.api.names import SYSTEM_NAMESPACE

CONTROL_PLANE_PARTS: Final = 5
KWOK: Final = "kwok-controller"
LEASES: Final = ("hetserve-scheduler", "hetserve-operator")
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
            cluster.kube.apply_all(stages.default_stages())
        except BaseException:
            folder.destroy()
            raise
        finally:
            claim.release()
        return cluster

    @classmethod
    @contextmanager
    def started(
        cls, path: Path, *, owner: ProcessRecord | None = None, toolset: tools.Toolset | None = None
    ) -> Iterator[Cluster]:
        """A control plane during the block."""
        cluster = cls.start(path, owner=owner, toolset=toolset)
        try:
            yield cluster
        finally:
            cluster.stop()

    @classmethod
    def attached(cls, path: Path, toolset: tools.Toolset, *, whole: bool = True) -> Cluster | None:
        """The cluster in `path` if its whole control plane runs, or any part of it, else None."""
        folder = StateFolder(path)
        state = folder.load()
        parts = CONTROL_PLANE_PARTS if whole else 1
        if state is None or len(folder.control_plane()) < parts or not folder.kubeconfig.exists():
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
            limits.ROLLOUT,
            "the apiserver to be ready",
        )
        wait_until(self._has_accounts, limits.ROLLOUT, "the controller manager to make the default service account")

    def _has_accounts(self) -> bool:
        """A controller manager ends where the API server takes over 10 s to be healthy; then it is started anew."""
        if len(self.folder.control_plane()) < CONTROL_PLANE_PARTS:
            controlplane.start_ended(self.tools, self.folder)
        return self.kube.find("serviceaccounts", "default", "default") is not None

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

        what = f"{len(names)} nodes to be ready and untainted"
        try:
            wait_until(ready, limits.REACTION, what)
        except WaitTimeoutError:
            self._restart_kwok(what)
            wait_until(ready, limits.ROLLOUT, what)

    def _restart_kwok(self, what: str) -> None:
        """Of some thousands of KWOKs (v0.8.0) one played no node. Why is not known: its log is printed."""
        log = controlplane.component_log(self.folder, KWOK)
        print(f"KWOK is started anew, as it did not get {what}; its log ends:\n{tail(log, 40)}", file=sys.__stderr__)
        end([record for record in self.folder.control_plane() if record.name == KWOK], grace=PART_GRACE)
        controlplane.start_ended(self.tools, self.folder)

    def remove_nodes(self, *nodes: FakeCluster | NodeGroup) -> None:
        """Deletes nodes."""
        for group in nodes:
            for name in group.node_names():
                self.kube.delete("nodes", name)

    def play_launch_times(self, *names: str, scale: float = 1.0, jitter: float = 0.0, drain: bool = False) -> None:
        """Pods of these InstanceTypes (none named: of all there are) become Ready after the type's launch time.

        scale, jitter, drain: as of `stages.launch_stages`. Again: replaces what was said of these types.
        """
        types = [type_ for type_ in self.kube.list("instancetypes") if not names or type_["metadata"]["name"] in names]
        missing = set(names) - {type_["metadata"]["name"] for type_ in types}
        if missing:
            raise LookupError(f"no InstanceType {', '.join(sorted(missing))} to play launch times of")
        self.kube.apply_all(stages.launch_stages(types, scale=scale, jitter=jitter, drain=drain))
        if not drain:
            for type_ in types:
                self.kube.delete("stages", stages.drain_name(type_["metadata"]["name"]))

    def launch_at_once(self, *names: str) -> None:
        """The default again, for pods of these types."""
        for name in names:
            self.kube.delete("stages", stages.launch_name(name))
            self.kube.delete("stages", stages.drain_name(name))

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
            timeout=limits.COMMAND,
        )
        if check and done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout if check else done.stdout + done.stderr

    # hetserve

    def install_crds(self) -> None:
        self.apply("crds")
        self._wait_for_crds()

    def install_hetserve(
        self, values: Mapping[str, Any] | None = None, *, fresh: bool = True, first: bool = False
    ) -> None:
        """Installs the chart, starts all components, waits until ready; `values`: laid over the harness's.

        first: nobody has led before, so each leader waits for a whole Lease; else somebody has, and ended in order.
        """
        self.install_chart(values, fresh=fresh)
        if not first:
            self.give_leases_up()
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
        for account in {component.account for component in self.components()}:
            components.write_account(self.kube, self.folder, account)

    def give_leases_up(self) -> None:
        """Leaves Leases as leaders that ended in order do, where there are none."""
        stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": "", "leaseDurationSeconds": 3, "leaseTransitions": 1, "renewTime": stamp}
        kind = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}
        for name in LEASES:
            if self.kube.find("leases", name, SYSTEM_NAMESPACE) is None:
                self.kube.create({**kind, "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE}, "spec": spec})

    def components(self) -> tuple[Component, ...]:
        return components.components(self.ports)

    def component(self, name: str) -> Component:
        """Any component, by its process's name with or without ``hetserve-``.

        Raises LookupError with those that exist.
        """
        every = {component.process: component for component in self._every_component()}
        found = every.get(name) or every.get(f"hetserve-{name}")
        if found is None:
            raise LookupError(f"no component {name!r}; there are {', '.join(every)}")
        return found

    def _every_component(self) -> tuple[Component, ...]:
        ports = self.ports
        measured = (beside.prometheus_component(ports), beside.twin_component(ports))
        routed = (*beside.router_components(ports), beside.kubelet_component())
        return (*self.components(), *components.standbys(self.ports), *measured, *routed)

    def start_component(self, name: str, *, wait: bool = True, descriptors: int | None = None) -> None:
        """Starts a component unless it runs; `descriptors`: limit of its open files."""
        component = self.component(name)
        if self.running(name):
            return
        component.write_settings(self.kube, self.folder)
        command = component.command(self.folder, self.tools, self.ports)
        log = self.folder.log(component.process)
        env = controlplane.environment(self.folder)
        record = spawn(component.process, command, log, env, descriptors=descriptors)
        self.state = self.state.with_process(record)
        self.folder.save(self.state)
        if component.metrics_port is not None:
            beside.write_target(self.folder, component.process, component.metrics_port)
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
            answer = httpx.get(component.ready_url, verify=False, timeout=limits.ANSWER, trust_env=False)  # noqa: S501
            if answer.status_code != 200:
                return Unmet(f"{answer.status_code} {answer.text}")
            return component.port is None or self._anybody_listens(component.port)

        wait_until(ready, limits.ROLLOUT, f"{component.process} to be ready")

    def refresh_settings(self) -> set[str]:
        """Writes installed settings; names of the components whose settings changed."""
        changed = set()
        for component in self.components():
            path = component.settings_file(self.folder)
            before = path.read_text() if path.exists() else None
            component.write_settings(self.kube, self.folder)
            if path.read_text() != before:
                changed.add(component.name)
        return changed

    def running(self, name: str) -> bool:
        """Whether its process lives, a frozen one too."""
        return self._process(name) is not None

    def frozen(self, name: str) -> bool:
        record = self._process(name)
        return record is not None and record.frozen()

    def freeze_component(self, name: str) -> None:
        """SIGSTOP: it lives, holds what it holds and does nothing. Raises RuntimeError if it does not run."""
        self._running_process(name).freeze()

    def thaw_component(self, name: str) -> None:
        """SIGCONT. Raises RuntimeError if it does not run."""
        self._running_process(name).thaw()

    def stop_component(self, name: str) -> None:
        """Sends SIGTERM. Raises AssertionError if the component does not end in time."""
        record = self._process(name)
        grace = PART_GRACE if name in controlplane.PARTS else COMPONENT_GRACE
        killed = end([record] if record else [], grace=grace)
        assert not killed, f"{name} did not end within {grace:g} s of SIGTERM"

    def kill_component(self, name: str) -> None:
        """SIGKILL; returns once it is gone. Raises RuntimeError if it does not run."""
        end([self._running_process(name)], grace=0)

    def restart_component(self, name: str) -> None:
        self.stop_component(name)
        self.start_component(name)

    def start_control_plane(self) -> None:
        """Starts the parts of the control plane that ended, and waits until it works."""
        controlplane.start_ended(self.tools, self.folder)
        self.wait_for_control_plane()

    def _process(self, name: str) -> ProcessRecord | None:
        """The living process of a component, or of a part of the control plane."""
        if name in controlplane.PARTS:
            parts = {record.name: record for record in self.folder.control_plane()}
            return parts.get(controlplane.PARTS[name])
        record = self.state.process(self.component(name).process)
        return record if record is not None and record.alive() else None

    def _running_process(self, name: str) -> ProcessRecord:
        record = self._process(name)
        if record is None:
            raise RuntimeError(f"{name} does not run")
        return record

    def component_logs(self, lines: int = 60) -> dict[str, str]:
        """End of each component's log, by name."""
        return {c.process: tail(self.folder.log(c.process), lines) for c in self._every_component()}

    @staticmethod
    def _anybody_listens(port: int) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex((components.HOST, port)) == 0

    def _wait_for_crds(self) -> None:
        def established() -> bool | Unmet:
            crds = self.kube.list("crds")
            waiting = sorted(crd["metadata"]["name"] for crd in crds if not is_true(crd, "Established"))
            return (bool(crds) and not waiting) or Unmet(waiting or "no CRD at all")

        wait_until(established, limits.ROLLOUT, "the CRDs to be established")


def _schedulable(node: Manifest) -> bool:
    taints = {taint["key"] for taint in node["spec"].get("taints", [])}
    return is_true(node, "Ready") and not taints & UNREADY_TAINTS
