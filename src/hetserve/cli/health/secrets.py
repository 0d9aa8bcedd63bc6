"""Reads the certificates of the verbs' port from their Secrets; keys are passed over."""

from __future__ import annotations

import base64
import binascii
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

from hetserve.base.certificates import Certificate, read_certificates
from hetserve.base.units import Seconds
from hetserve.cli.cluster.client import ClusterClient, RawObject, config_map_path
from hetserve.cli.health.facts import SideFact, TlsFact

_VOLUME, _TRUST = "tls", "trust"
_BUNDLE: Final = "ca.crt"
_NOTHING: Final[RawObject] = {}


def tls_fact(cluster: ClusterClient, namespace: str, prefix: str, extender: RawObject, stanza: RawObject) -> TlsFact:
    """Certificates of both sides.

    prefix: what names of the installation's objects begin with. extender: the extender's settings. stanza: the extender
    in the scheduler's configuration. Raises ClusterError.
    """
    serves = extender.get("tls") or {}
    calls = stanza.get("tlsConfig") or {}
    trust = {"extender": str(serves.get("clientCaFile") or ""), "scheduler": str(calls.get("caFile") or "")}
    secure = bool(serves.get("certFile"))
    return TlsFact(
        serves=secure,
        server_name=str(calls.get("serverName") or ""),
        client_names=tuple(map(str, serves.get("clientNames") or ())),
        extender=_side(cluster, namespace, f"{prefix}-extender", trust["extender"]) if secure else None,
        scheduler=_side(cluster, namespace, f"{prefix}-scheduler", trust["scheduler"]) if secure else None,
        now=Seconds(cluster.time()),
    )


def _side(cluster: ClusterClient, namespace: str, component: str, trust: str) -> SideFact | None:
    quoted = quote(namespace, safe="")
    deployment = cluster.find(f"/apis/apps/v1/namespaces/{quoted}/deployments/{component}")
    volumes = {one["name"]: one for one in _pod(deployment or _NOTHING).get("volumes") or ()}
    named = ((volumes.get(_VOLUME) or {}).get("secret") or {}).get("secretName")
    name = str(named or f"{component}-tls")
    where = f"Secret {name}"
    secret = cluster.find(f"/api/v1/namespaces/{quoted}/secrets/{quote(name, safe='')}")
    if secret is None:
        return SideFact(where, problem="is not there") if deployment else None
    bundle = ((volumes.get(_TRUST) or {}).get("configMap") or {}).get("name")
    try:
        chain = _decoded(secret, "tls.crt")
        if bundle:
            found = cluster.find(config_map_path(namespace, bundle)) or _NOTHING
            trusted = read_certificates((found.get("data") or {}).get(PurePosixPath(trust).name) or "")
        else:
            trusted = _decoded(secret, _BUNDLE)
    except ValueError as error:
        return SideFact(where, problem=str(error))
    if not chain or not trusted:
        lacks = f"ConfigMap {bundle} holds no authority" if bundle and chain else "holds no certificate"
        return SideFact(where, chain, trusted, lacks if not chain or bundle else f"holds no authority in {_BUNDLE}")
    return SideFact(where, chain, trusted)


def _pod(deployment: RawObject) -> dict[str, Any]:
    template = (deployment.get("spec") or {}).get("template") or {}
    return template.get("spec") or {}


def _decoded(secret: RawObject, key: str) -> tuple[Certificate, ...]:
    """Certificates in a Secret's key. Raises ValueError."""
    content = (secret.get("data") or {}).get(key) or ""
    try:
        return read_certificates(base64.b64decode(content, validate=True).decode("ascii", "replace"))
    except binascii.Error as error:
        raise ValueError(f"{key} is no base64: {error}") from None
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from None
