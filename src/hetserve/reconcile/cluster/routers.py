"""Routers of an installation: which one serves a namespace, and whether it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

OTHERS: Final = "*"
"""In place of a namespace: all that no router names."""
GRPC_PORT: Final = 8001
PORTS: Final[tuple[Mapping[str, Any], ...]] = (
    {"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80},
    {
        "name": "grpc",
        "port": GRPC_PORT,
        "protocol": "TCP",
        "targetPort": GRPC_PORT,
        "appProtocol": "kubernetes.io/h2c",
    },
)
"""Ports of a router's Service."""


@dataclass(frozen=True, slots=True)
class Router:
    """name: of its Service and its Lease. host: DNS name of that Service. leads: whether one holds the Lease."""

    name: str
    host: str
    leads: bool = True
