"""How the extender of a cluster is configured, as far as whoever asks may read it."""

from __future__ import annotations

from typing import Any, Final

import click
import yaml

from hetserve.api import names
from hetserve.cli.cluster import Cluster, ClusterError

_SETTINGS: Final = f"/api/v1/namespaces/{names.SYSTEM_NAMESPACE}/configmaps/hetserve-extender"


def extender_settings(cluster: Cluster | None) -> dict[str, Any]:
    """Content of its settings.yaml; empty where there is no cluster, or they cannot be read, which a note says."""
    if cluster is None:
        return {}
    try:
        found = cluster.find(_SETTINGS) or {}
        content = yaml.safe_load((found.get("data") or {}).get("settings.yaml") or "")
    except (ClusterError, yaml.YAMLError) as error:
        click.echo(f"note: the extender's settings cannot be read ({error}); its defaults are taken", err=True)
        return {}
    return content if isinstance(content, dict) else {}
