"""Runs hetserve's components as processes, each under its account from the chart, which is installed without
Deployments.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from harness import limits
from harness.files import write_whole
from harness.kube import Kube, read_manifests
from harness.ports import Ports
from harness.state import StateFolder
from harness.tools import Toolset
from hetserve.api.names import SYSTEM_NAMESPACE

ROOT: Final = Path(__file__).resolve().parents[2]
CHART: Final = ROOT / "charts" / "hetserve"
RELEASE: Final = "hetserve"
TOKEN_SECONDS: Final = 365 * 24 * 3600
HOST: Final = "127.0.0.1"
ABSENT_ACCOUNT: Final = "nobody"
STANDBY: Final = "standby"
"""Host name of the second pair of scheduler and extender: by it they know each other, as by the name of their pod."""
ANOTHER_HOST: Final = ("unshare", "--user", "--map-root-user", "--uts", "/bin/sh", "-c", 'hostname "$0" && exec "$@"')
"""Before a host name and a command: it runs on this machine, and believes that the machine has that name."""
ASK_INTERVAL: Final = "1s"
"""Prometheus scrapes as often: scenarios have windows of seconds."""


@dataclass(frozen=True, slots=True)
class Component:
    """One process; its ConfigMap has its name.

    `replica`: distinguishes processes of one component. `port`: open once it works. `metrics_port`: serves /metrics.
    `moved`: ports in its settings, and what this replica takes instead.
    """

    name: str
    settings_key: str
    ready_url: str
    port: int | None = None
    replica: str = ""
    flags: tuple[str, ...] = ()
    metrics_port: int | None = None
    moved: tuple[tuple[int, int], ...] = ()

    @property
    def account(self) -> str:
        """Its service account: scheduler and extender share their pod's."""
        return "hetserve-scheduler" if self.name == "hetserve-extender" else self.name

    @property
    def process(self) -> str:
        return f"{self.name}-{self.replica}" if self.replica else self.name

    def command(self, folder: StateFolder, tools: Toolset, ports: Ports) -> list[str]:
        """Arguments of the process."""
        settings, account = str(self.settings_file(folder)), str(folder.account(self.account))
        if self.name == "hetserve-scheduler":
            return [
                *((*ANOTHER_HOST, STANDBY) if self.replica else ()),
                tools["kube-scheduler"],
                f"--config={settings}",
                f"--authentication-kubeconfig={account}",
                f"--authorization-kubeconfig={account}",
                f"--bind-address={HOST}",
                f"--secure-port={ports.scheduler_standby if self.replica else ports.scheduler}",
                f"--cert-dir={folder.path / f'{self.process}-certificates'}",
            ]
        program = Path(sys.executable).parent / self.name
        return [str(program), "--config", settings, "--kubeconfig", account, "--host", HOST, *self.flags]

    def settings_file(self, folder: StateFolder) -> Path:
        return folder.path / "settings" / f"{self.process if self.moved else self.name}.yaml"

    def write_settings(self, kube: Kube, folder: StateFolder) -> None:
        """Settings from the component's ConfigMap."""
        text = str(kube.get("configmaps", self.name, SYSTEM_NAMESPACE)["data"][self.settings_key])
        for usual, own in self.moved:
            text = text.replace(str(usual), str(own))
        write_whole(self.settings_file(folder), text)


def components(ports: Ports) -> tuple[Component, ...]:
    """In the order of their start."""
    return (
        _probed("hetserve-extender", ports.extender_probe, port=ports.extender),
        Component("hetserve-scheduler", "scheduler.yaml", f"https://{HOST}:{ports.scheduler}/readyz"),
        _probed("hetserve-operator", ports.operator_probe),
    )


def standbys(ports: Ports) -> tuple[Component, ...]:
    """A second pair of scheduler and extender, and the standby operator; only some scenarios start them."""
    moved = (
        (ports.extender, ports.extender_standby),
        (ports.extender_probe, ports.standby_probe),
        (ports.scheduler, ports.scheduler_standby),
    )
    beside = ("--scheduler-host", STANDBY)
    scheduler = f"https://{HOST}:{ports.scheduler_standby}/readyz"
    return (
        _probed(
            "hetserve-extender",
            ports.standby_probe,
            port=ports.extender_standby,
            replica=STANDBY,
            flags=beside,
            moved=moved,
        ),
        _probed(
            "hetserve-operator",
            ports.operator_standby_probe,
            replica=STANDBY,
            flags=("--probe-port", str(ports.operator_standby_probe), "--identity", STANDBY),
        ),
        Component("hetserve-scheduler", "scheduler.yaml", scheduler, replica=STANDBY, moved=moved),
    )


def _probed(
    name: str,
    probe: int,
    *,
    port: int | None = None,
    replica: str = "",
    flags: tuple[str, ...] = (),
    moved: tuple[tuple[int, int], ...] = (),
) -> Component:
    ready = f"http://{HOST}:{probe}/readyz"
    return Component(name, "settings.yaml", ready, port, replica, flags, metrics_port=probe, moved=moved)


def values(ports: Ports, folder: StateFolder) -> dict[str, Any]:
    """Chart values for components that run as processes, and for Prometheus beside them, whether it runs or not."""
    return (
        _measured(ports)
        | _allowed()
        | _open()
        | {
            "components": {"enabled": False},
            "extender": {"host": HOST, "port": ports.extender, "probePort": ports.extender_probe},
            "operator": {"probePort": ports.operator_probe},
            # One pair: a scheduler that a scenario kills and starts again should not wait for its own Lease.
            "scheduler": {
                "replicas": 1,
                "leaderElection": {"enabled": False},
                "probePort": ports.scheduler,
                "kubeconfig": str(folder.account("hetserve-scheduler")),
            },
        }
    )


def _measured(ports: Ports) -> dict[str, Any]:
    """Where the operator asks for measurements, own queries too; nothing from a chart that does not know it."""
    if not _knows("metrics"):
        return {}
    prometheus = {"url": f"http://{HOST}:{ports.prometheus}", "interval": ASK_INTERVAL}
    return {"metrics": {"prometheus": prometheus, "allowQueries": True}}


def _allowed() -> dict[str, Any]:
    """The account that a scenario's template names though there is none such."""
    return {"admission": {"serviceAccounts": ["default", ABSENT_ACCOUNT]}} if _knows("admission") else {}


def _open() -> dict[str, Any]:
    """Probe ports of this machine's loopback, which people and Prometheus read without a token."""
    return {"probes": {"authorization": "none"}} if _knows("probes") else {}


def _knows(section: str) -> bool:
    (values_of_chart,) = read_manifests(CHART / "values.yaml")
    return section in values_of_chart


def install_chart(
    tools: Toolset, folder: StateFolder, given: Mapping[str, Any], env: Mapping[str, str], *, fresh: bool
) -> None:
    """`helm install`, or `helm upgrade` that resets values not given. Raises RuntimeError."""
    verb = ["install"] if fresh else ["upgrade", "--install", "--reset-values"]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=folder.path) as file:
        file.write(yaml.safe_dump(dict(given)))
        file.flush()
        command = [tools["helm"], *verb, RELEASE, str(CHART), "--namespace", SYSTEM_NAMESPACE]
        command += ["--create-namespace", "--kubeconfig", str(folder.kubeconfig), "--values", file.name]
        done = subprocess.run(
            command, env=dict(env), check=False, capture_output=True, text=True, timeout=limits.COMMAND
        )
    if done.returncode:
        raise RuntimeError(f"helm {verb[0]} of {CHART.name} failed: {done.stderr.strip()}")


def token_of(kube: Kube, name: str, namespace: str = SYSTEM_NAMESPACE) -> str:
    """A token of a service account."""
    answer = kube.request(
        "POST",
        f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
        json={
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_SECONDS},
        },
    )
    return str(answer.json()["status"]["token"])


def write_account(kube: Kube, folder: StateFolder, name: str, namespace: str = SYSTEM_NAMESPACE) -> Path:
    """Kubeconfig of a service account, with a token; returns its path."""
    path = folder.account(name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_kubeconfig(path, folder.kubeconfig, name, token_of(kube, name, namespace), namespace)
    return path


def write_kubeconfig(path: Path, admin: Path, name: str, token: str, namespace: str) -> None:
    """Kubeconfig of whom a token names, at the cluster of an administrator's."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": RELEASE, "cluster": yaml.safe_load(admin.read_text())["clusters"][0]["cluster"]}],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": RELEASE, "user": name, "namespace": namespace}}],
    }
    write_whole(path, yaml.safe_dump(config), mode=0o600)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Deep merge."""
    result: dict[str, Any] = json.loads(json.dumps(dict(base)))
    for key, value in over.items():
        nested = isinstance(value, Mapping) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if nested else value
    return result
