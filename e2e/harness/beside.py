"""What runs beside the control plane where a test asks for it: Prometheus, the load twin, a router and the kubelet of
workers, as components.

STATE/prometheus holds targets and data of the one, STATE/twin the traces of the other.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import yaml

from harness.components import HOST, ROOT, STANDBY, Component
from harness.files import write_whole
from harness.kube import Kube
from harness.kubelet import network
from harness.ports import Ports
from harness.state import StateFolder
from harness.tools import Toolset

PROMETHEUS: Final = "prometheus"
TWIN: Final = "hetserve-twin"
ROUTER: Final = "hetserve-router"
ROUTER_ENTRY: Final = "hetserve-router-default"
"""The only entry of the chart's routers: name of its Service and Lease."""
KUBELET: Final = "kubelet"
_PROGRAM: Final = "from hetserve_twin import start; start()"
_KUBELET_PROGRAM: Final = "from harness.kubelet import main; main()"
SCRAPE_INTERVAL: Final = "1s"
LOOKBACK: Final = "15s"
TARGETS_INTERVAL: Final = "200ms"
"""How soon a new target is scraped; Prometheus's own 5 s are for discoveries that change without end."""


def configuration(folder: StateFolder) -> dict[str, Any]:
    """Every target file of the folder is scraped each second; labels that a target gives itself stay.

    It shows the token in STATE/prometheus/token, where there is one.
    """
    token = folder.path / PROMETHEUS / "token"
    return {
        "global": {"scrape_interval": SCRAPE_INTERVAL, "scrape_timeout": SCRAPE_INTERVAL},
        "scrape_configs": [
            {
                "job_name": "hetserve",
                "honor_labels": True,
                **({"authorization": {"credentials_file": str(token)}} if token.exists() else {}),
                "file_sd_configs": [{"files": [str(folder.path / PROMETHEUS / "targets" / "*.json")]}],
            }
        ],
    }


@dataclass(frozen=True, slots=True)
class PrometheusComponent(Component):
    """Its settings are the harness's own, and it has no service account."""

    def command(self, folder: StateFolder, tools: Toolset, ports: Ports) -> list[str]:
        return [
            tools[PROMETHEUS],
            f"--config.file={self.settings_file(folder)}",
            f"--storage.tsdb.path={folder.path / PROMETHEUS / 'data'}",
            f"--web.listen-address={HOST}:{ports.prometheus}",
            f"--query.lookback-delta={LOOKBACK}",
            f"--scrape.discovery-reload-interval={TARGETS_INTERVAL}",
        ]

    def write_settings(self, kube: Kube, folder: StateFolder) -> None:  # noqa: ARG002
        if not self.port:
            raise RuntimeError("this cluster is of an earlier version, without a port for prometheus: make a new one")
        # Prometheus watches the folder, and looks again only after minutes if it was not there.
        (folder.path / PROMETHEUS / "targets").mkdir(parents=True, exist_ok=True)
        write_whole(self.settings_file(folder), yaml.safe_dump(configuration(folder)))


def prometheus_component(ports: Ports) -> Component:
    """Prometheus as a component; ready once its web server answers."""
    return PrometheusComponent(PROMETHEUS, "", f"http://{HOST}:{ports.prometheus}/-/ready", ports.prometheus)


def write_target(folder: StateFolder, job: str, port: int, labels: Mapping[str, str] | None = None) -> None:
    """Has a port's /metrics scraped, as soon as Prometheus runs. labels: of the target; its own series win."""
    groups = [{"targets": [f"{HOST}:{port}"], "labels": {"job": job} | dict(labels or {})}]
    write_whole(folder.path / PROMETHEUS / "targets" / f"{job}.json", json.dumps(groups))


def remove_target(folder: StateFolder, job: str) -> None:
    (folder.path / PROMETHEUS / "targets" / f"{job}.json").unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class TwinComponent(Component):
    """Its settings are what `Twin.play` wrote; its account has no Deployment in the chart."""

    def command(self, folder: StateFolder, tools: Toolset, ports: Ports) -> list[str]:  # noqa: ARG002
        account = str(folder.account(self.name))
        return [sys.executable, "-c", _PROGRAM, "--config", str(self.settings_file(folder)), "--kubeconfig", account]

    def write_settings(self, kube: Kube, folder: StateFolder) -> None:  # noqa: ARG002
        if not self.port:
            raise RuntimeError(f"this cluster is of an earlier version, without a port for {self.name}: make a new one")
        if not self.settings_file(folder).exists():
            raise RuntimeError(f"{self.name} has no load to play yet: harness.twin.Twin(cluster).play(...)")


def twin_component(ports: Ports) -> Component:
    """The twin as a component; ready once it plays."""
    return TwinComponent(TWIN, "", f"http://{HOST}:{ports.twin}/readyz", ports.twin, metrics_port=ports.twin)


@dataclass(frozen=True, slots=True)
class RouterComponent(Component):
    """Its pod has the name of its process, if there is one."""

    def command(self, folder: StateFolder, tools: Toolset, ports: Ports) -> list[str]:
        usual = super(RouterComponent, self).command(folder, tools, ports)
        return ["/usr/bin/env", f"POD_NAME={self.process}", *usual]


def router_components(ports: Ports) -> tuple[Component, ...]:
    """Two processes of the chart's router; ready once they have listed services and pods, whether they lead or not."""
    return (
        _router(ports.router, ports.router_probe),
        _router(ports.router_standby, ports.router_standby_probe, STANDBY),
    )


def _router(port: int, probe: int, replica: str = "") -> Component:
    flags = ("--port", str(port), "--probe-port", str(probe))
    ready, key = f"http://{HOST}:{probe}/readyz", f"{ROUTER_ENTRY}.yaml"
    return RouterComponent(ROUTER, key, ready, port, replica, flags, metrics_port=probe)


@dataclass(frozen=True, slots=True)
class KubeletComponent(Component):
    """It has no settings, and the administrator's account."""

    def command(self, folder: StateFolder, tools: Toolset, ports: Ports) -> list[str]:  # noqa: ARG002
        given = str(folder.kubeconfig), network(ports), str(folder.path / "logs")
        path = f"PYTHONPATH={ROOT / 'e2e'}"  # by which its workers find it, too
        return ["/usr/bin/env", path, sys.executable, "-c", _KUBELET_PROGRAM, *given]

    def write_settings(self, kube: Kube, folder: StateFolder) -> None:
        """None."""


def kubelet_component() -> Component:
    """The kubelet of workers as a component; nobody can ask whether it is ready."""
    return KubeletComponent(KUBELET, "", "")
