"""Paths of the objects that the operator reads and writes: of a namespace's, or of one. Names are quoted whole."""

from __future__ import annotations

from functools import partial
from typing import Final
from urllib.parse import quote

from hetserve.api.kinds import INFERENCE_SERVICE


def _path(api: str, plural: str, namespace: str, name: str | None = None) -> str:
    folder = f"{api}/namespaces/{quote(namespace, safe='')}/{plural}"
    return folder if name is None else f"{folder}/{quote(name, safe='')}"


service_path: Final = INFERENCE_SERVICE.path
deployments_path: Final = partial(_path, "/apis/apps/v1", "deployments")
replica_sets_path: Final = partial(_path, "/apis/apps/v1", "replicasets")
pods_path: Final = partial(_path, "/api/v1", "pods")
address_path: Final = partial(_path, "/api/v1", "services")
config_map_path: Final = partial(_path, "/api/v1", "configmaps")
lease_path: Final = partial(_path, "/apis/coordination.k8s.io/v1", "leases")
