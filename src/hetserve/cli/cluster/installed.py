"""How the extender of a cluster is configured, as far as whoever asks may read it."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import quote

import yaml

from hetserve.api.yaml_loader import contents
from hetserve.cli.cluster.client import Cluster, ClusterError
from hetserve.cli.output import messages

_NAME: Final = "hetserve-extender"


def extender_settings(cluster: Cluster | None, namespace: str, *, noted: bool = True) -> dict[str, Any]:
    """Content of its settings.yaml; empty where there is no cluster, or there are none to read, which a note says.

    `noted` False: that there are none is no news to whoever asks.
    """
    if cluster is None:
        return {}
    try:
        found = cluster.find(f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{_NAME}")
        documents = contents(((found or {}).get("data") or {}).get("settings.yaml") or "")
    except (ClusterError, yaml.YAMLError) as error:
        _note(f"the extender's settings cannot be read ({error})")
        return {}
    if len(documents) == 1 and isinstance(documents[0], dict):
        return documents[0]
    if found is not None:
        _note(f"the extender's settings cannot be read (settings.yaml of ConfigMap {_NAME} is not one mapping)")
    elif noted:
        _note(f"namespace {namespace} holds no settings of an extender (--system-namespace names another)")
    return {}


def _note(words: str) -> None:
    messages.note(f"{words}; its defaults are taken")
