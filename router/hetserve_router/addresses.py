"""Which service a request is for, and what it asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from hetserve_services.facts import Key
from hetserve_shell.http.limits import HttpError

SERVICE: Final = b"hetserve-service"
"""Header: `namespace/name` of the service, where a gateway keeps the client's Host."""
_SVC: Final = 3


class Asked(Enum):
    """What a path asks for."""

    SERVER_METADATA = "server metadata"
    LIVE = "health of the router"
    READY = "readiness of the router"
    HEALTH = "health of the router, by gRPC"
    MODEL_METADATA = "metadata of a model"
    MODEL_READY = "readiness of a model"
    INFER = "inference"
    OTHER = "another path"


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """model: named by the path; empty: none."""

    asked: Asked
    model: str = ""


_SERVER: Final = {
    b"/v2": RequestTarget(Asked.SERVER_METADATA),
    b"/v2/health/live": RequestTarget(Asked.LIVE),
    b"/v2/health/ready": RequestTarget(Asked.READY),
}
_RPC: Final = {
    b"/inference.GRPCInferenceService/%b" % name: RequestTarget(asked)
    for name, asked in {
        b"ServerLive": Asked.LIVE,
        b"ServerReady": Asked.READY,
        b"ServerMetadata": Asked.SERVER_METADATA,
        b"ModelReady": Asked.MODEL_READY,
        b"ModelMetadata": Asked.MODEL_METADATA,
        b"ModelInfer": Asked.INFER,
    }.items()
} | {b"/grpc.health.v1.Health/Check": RequestTarget(Asked.HEALTH)}
_OF_A_MODEL: Final = {b"": Asked.MODEL_METADATA, b"ready": Asked.MODEL_READY, b"infer": Asked.INFER}


def rpc_target_of(path: bytes) -> RequestTarget:
    """What a method of gRPC asks for; the model is in its message. Raises HttpError."""
    found = _RPC.get(path)
    if found is None:
        there = ", ".join(name.decode() for name in _RPC)
        raise HttpError(
            HTTPStatus.NOT_IMPLEMENTED, f"method {path[:200].decode('latin-1')}: is not served; there are {there}"
        )
    return found


def target_of(path: bytes) -> RequestTarget:
    """What a path without its query asks for: of the Open Inference Protocol v2, or OTHER."""
    found = _SERVER.get(path.rstrip(b"/") if len(path) > 1 else path)
    if found is not None:
        return found
    parts = path.split(b"/")
    if parts[:3] != [b"", b"v2", b"models"] or len(parts) < 4 or not parts[3]:
        return RequestTarget(Asked.OTHER)
    rest = parts[6:] if len(parts) > 5 and parts[4] == b"versions" else parts[4:]
    asked = _OF_A_MODEL.get(rest[0] if rest else b"") if len(rest) < 2 else None
    return RequestTarget(Asked.OTHER) if asked is None else RequestTarget(asked, unquote(parts[3].decode("latin-1")))


def service_of(named: bytes, host: bytes, namespaces: Sequence[str], domain: str) -> Key:
    """The service that a request is for.

    named: its header SERVICE, empty where absent. host: its header Host. namespaces: that this router serves; a Host of
    a bare name needs exactly one that is named. domain: of the cluster. Raises HttpError 400, 404.
    """
    if named:
        namespace, slash, name = named.decode("latin-1").partition("/")
        if slash and namespace and name and "/" not in name:
            return namespace, name
        raise HttpError(
            HTTPStatus.BAD_REQUEST,
            f"header {SERVICE.decode()} {named[:100].decode('latin-1')!r}: must be namespace/name",
        )
    labels = _host_labels(host, domain)
    if len(labels) == 1 and labels[0]:
        if len(namespaces) == 1 and namespaces[0] != "*":
            return namespaces[0], labels[0]
        raise _not_found(host, f"the router serves several namespaces, so ask {labels[0]}.NAMESPACE")
    if len(labels) == 2 or (len(labels) == _SVC and labels[2] == "svc"):
        return labels[1], labels[0]
    raise _not_found(host, "a service is asked as NAME.NAMESPACE")


def _host_labels(host: bytes, domain: str) -> list[str]:
    """Labels of a Host without port, dot at the end and cluster domain."""
    name = host.decode("latin-1").lower()
    if not name.startswith("["):
        name = name.partition(":")[0]
    return name.removesuffix(".").removesuffix(f".svc.{domain}").split(".")


def _not_found(host: bytes, remedy: str) -> HttpError:
    named = host[:300].decode("latin-1") or "(none)"
    return HttpError(
        HTTPStatus.NOT_FOUND,
        f"Host {named}: no service; {remedy}, or name it in the header {SERVICE.decode()}: namespace/name",
    )
