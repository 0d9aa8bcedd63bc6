"""A real control plane by kwokctl: etcd, apiserver, controller manager, default scheduler, fake kubelets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Final

import yaml

from harness import limits
from harness.files import write_whole
from harness.ports import Ports
from harness.processes import tail
from harness.state import CLUSTER_NAME, StateFolder
from harness.tools import Toolset

PARTS: Final = {"apiserver": "kube-apiserver", "etcd": "etcd"}
"""Parts that can be stopped and started by name: their processes."""
AUDIT_POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata"}],
}
ETCD: Final[dict[str, Any]] = {"name": "etcd", "extraArgs": [{"key": "unsafe-no-fsync", "value": "true"}]}
"""It waits for no disk, which a busy machine lets take seconds. What it wrote survives its process all the same."""


def configuration(tools: Toolset, ports: Ports, folder: StateFolder) -> dict[str, Any]:
    """kwokctl's configuration: our binaries, our ports, on 127.0.0.1 only."""
    options = {
        "runtime": "binary",
        "bindAddress": "127.0.0.1",
        "etcdPort": ports.etcd,
        "etcdPeerPort": ports.etcd_peer,
        "kubeApiserverPort": ports.apiserver,
        "kubeControllerManagerPort": ports.controller_manager,
        "kubeSchedulerPort": ports.default_scheduler,
        "kwokControllerPort": ports.kwok,
        "etcdBinary": tools["etcd"],
        "kubeApiserverBinary": tools["kube-apiserver"],
        "kubeControllerManagerBinary": tools["kube-controller-manager"],
        "kubeSchedulerBinary": tools["kube-scheduler"],
        "kubectlBinary": tools["kubectl"],
        "kwokControllerBinary": tools["kwok"],
        "kubeAuditPolicy": str(folder.path / "audit-policy.yaml"),
        "disableQPSLimits": True,
        "enableCRDs": ["Stage"],
    }
    return {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": options,
        "componentsPatches": [_apiserver_patch(folder), ETCD],
    }


def forwards(ports: Ports) -> dict[str, Any]:
    """The probe ports of our processes, as if every fake pod had them: what `kubectl port-forward` of one reaches."""
    probes = (ports.extender_probe, ports.operator_probe)
    spec = {"forwards": [{"ports": [port], "target": {"port": port, "address": "127.0.0.1"}} for port in probes]}
    kind = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterPortForward"}
    return {**kind, "metadata": {"name": "probes"}, "spec": spec}


def _apiserver_patch(folder: StateFolder) -> dict[str, Any]:
    authority = str(folder.kwok_cluster / "pki" / "ca.crt")
    # Without them the API server publishes no client CA.
    request_headers = {
        "requestheader-client-ca-file": authority,
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    }
    # As on OpenShift.
    admission = {"enable-admission-plugins": "OwnerReferencesPermissionEnforcement"}
    return {
        "name": "kube-apiserver",
        "extraArgs": [{"key": key, "value": value} for key, value in (request_headers | admission).items()],
    }


def environment(folder: StateFolder) -> dict[str, str]:
    """State in our folder, no proxy."""
    own = {
        "KWOK_WORKDIR": str(folder.kwok),
        "KUBECONFIG": str(folder.kubeconfig),
        "KUBECACHEDIR": str(folder.path / "kube-cache"),
        "HELM_CACHE_HOME": str(folder.path / "helm" / "cache"),
        "HELM_CONFIG_HOME": str(folder.path / "helm" / "config"),
        "HELM_DATA_HOME": str(folder.path / "helm" / "data"),
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
    }
    return {**os.environ, **own}


def start(tools: Toolset, ports: Ports, folder: StateFolder) -> None:
    """Starts a control plane and writes the administrator's kubeconfig.

    Raises RuntimeError. An interrupt lets kwokctl finish, so that every process can be stopped.
    """
    folder.kwok.mkdir(parents=True, exist_ok=True)
    write_whole(folder.path / "audit-policy.yaml", yaml.safe_dump(AUDIT_POLICY))
    documents = (configuration(tools, ports, folder), forwards(ports))
    write_whole(folder.path / "kwokctl.yaml", yaml.safe_dump_all(documents))
    _kwokctl(tools, folder, "create", "cluster", "--kubeconfig", str(folder.kubeconfig))
    folder.kubeconfig.chmod(0o600)


def start_ended(tools: Toolset, folder: StateFolder) -> None:
    """Starts those parts anew that ended. Raises RuntimeError."""
    running = {record.name for record in folder.control_plane()}
    for path in folder.kwok_cluster.glob("pids/*.pid"):
        if path.stem not in running:
            path.unlink()  # kwokctl takes one that nobody reaped for a running one
    _kwokctl(tools, folder, "start", "cluster")


def _kwokctl(tools: Toolset, folder: StateFolder, *arguments: str) -> None:
    log = folder.log("kwokctl")
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [tools["kwokctl"], "--name", CLUSTER_NAME, "--config", str(folder.path / "kwokctl.yaml"), *arguments]
    with log.open("wb") as sink:
        kwokctl = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment(folder),
            start_new_session=True,
        )
        try:
            kwokctl.wait(timeout=limits.COMMAND)
        finally:
            if kwokctl.poll() is None:
                try:
                    kwokctl.wait(timeout=limits.ANSWER)
                except subprocess.TimeoutExpired:
                    kwokctl.kill()
                    kwokctl.wait()
    if kwokctl.returncode:
        raise RuntimeError(f"kwokctl could not start a control plane:\n{tail(log, 15)}")


def component_log(folder: StateFolder, name: str) -> Path:
    """Log of ``kube-apiserver``, ``audit`` and others."""
    return folder.kwok_cluster / "logs" / f"{name}.log"
