"""Certificates of the verbs' port where components run as processes: here their Secrets are mounted."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path
from typing import Any, Final

from harness.files import write_whole
from harness.kube import Kube
from harness.ports import Ports
from harness.state import StateFolder
from hetserve.api.names import SYSTEM_NAMESPACE

HOST: Final = "127.0.0.1"
SERVER: Final = f"hetserve-extender.{SYSTEM_NAMESPACE}.svc"
SIDES: Final = ("extender", "scheduler")
DISABLED: Final[dict[str, Any]] = {"tls": {"mode": "Disabled"}}


def folder_of(folder: StateFolder, side: str) -> Path:
    """Where a process finds tls.crt, tls.key and ca.crt."""
    return folder.path / "tls" / side


def secret_of(side: str) -> str:
    """Name of the Secret of a side: as the chart calls its own."""
    return f"hetserve-{side}-tls"


def values(ports: Ports, folder: StateFolder, mode: str = "SelfSigned") -> dict[str, Any]:
    """Values of the chart for processes that speak mutual TLS; mode Secret takes Secrets of the usual names."""
    secret = {side: secret_of(side) for side in SIDES} if mode == "Secret" else {}
    folders = {side: str(folder_of(folder, side)) for side in SIDES}
    return {
        "tls": {"mode": mode, "folders": folders, "secret": secret},
        "scheduler": {"extenderUrl": f"https://{HOST}:{ports.extender}"},
    }


def caller(folder: StateFolder) -> ssl.SSLContext:
    """What the scheduler connects with."""
    mounted = folder_of(folder, "scheduler")
    context = ssl.create_default_context(cafile=mounted / "ca.crt")
    context.load_cert_chain(mounted / "tls.crt", mounted / "tls.key")
    return context


def mount(kube: Kube, folder: StateFolder) -> None:
    """Writes what the Secrets hold where the processes look; nothing where there is none."""
    for side in SIDES:
        secret = kube.find("secrets", secret_of(side), SYSTEM_NAMESPACE)
        for name, content in (secret or {"data": {}})["data"].items():
            path = folder_of(folder, side) / name
            text = base64.b64decode(content).decode()
            if not path.exists() or path.read_text() != text:
                write_whole(path, text, mode=0o600)
