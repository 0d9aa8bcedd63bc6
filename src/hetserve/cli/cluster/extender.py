"""Reads the extender's settings, and its placement log from the cluster, a file or a URL."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import yaml

from hetserve.base.files import UnreadableError, read_text
from hetserve.base.yaml_loader import contents
from hetserve.cli.cluster.client import ClusterClient, ClusterError, config_map_path, pod_path
from hetserve.cli.output import messages

Record = dict[str, Any]
_CONFIG_MAP: Final = "hetserve-extender"
PROBE_PORT: Final = 8889
MOST_BYTES: Final = 1 << 30
"""Largest dump or log, as of the setting placementLog."""
_TIMEOUT: Final = 30.0
_MOST_WORDS: Final = 1000
_EXTENDERS: Final = "app.kubernetes.io/name=hetserve,app.kubernetes.io/component=extender"


def extender_settings(cluster: ClusterClient | None, namespace: str, *, noted: bool = True) -> dict[str, Any]:
    """The extender's settings.yaml; empty, with a note, if it cannot be read.

    cluster: None: empty, without a note. namespace: of hetserve. noted: whether missing settings are worth a note.
    """
    if cluster is None:
        return {}
    try:
        found = cluster.find(config_map_path(namespace, _CONFIG_MAP))
        documents = contents(((found or {}).get("data") or {}).get("settings.yaml") or "")
    except (ClusterError, yaml.YAMLError) as error:
        _note(f"the extender's settings cannot be read ({error})")
        return {}
    if len(documents) == 1 and isinstance(documents[0], dict):
        return documents[0]
    if found is not None:
        _note(f"the extender's settings cannot be read (settings.yaml of ConfigMap {_CONFIG_MAP} is not one mapping)")
    elif noted:
        _note(f"namespace {namespace} holds no settings of an extender (--system-namespace names another)")
    return {}


def read_log(where: str) -> list[Record]:
    """Records of a file ("-": standard input) or an http URL. Raises ClusterError."""
    return parse_log(_text(where), where)


def live_log(cluster: ClusterClient, namespace: str) -> list[Record]:
    """The leader's log, by the API server's proxy. Raises ClusterError."""
    pods = cluster.list(pod_path(namespace, "").rstrip("/"), labels=_EXTENDERS).items
    if not pods:
        raise ClusterError(
            f"no pod of the extender in namespace {namespace}; --system-namespace names another, --log URL a process"
        )
    leaders = [pod for pod in pods if (pod["metadata"].get("labels") or {}).get("hetserve.io/leader") == "true"]
    pod = (leaders or list(pods))[0]
    port = int(extender_settings(cluster, namespace, noted=False).get("probePort", PROBE_PORT))
    path = f"{pod_path(namespace, pod['metadata']['name'])}:{port}/proxy/log"
    return parse_log(cluster.text(path), f"pod {pod['metadata']['name']}")


def parse_log(text: str, where: str) -> list[Record]:
    """Records of JSON lines, or of a dump with a log. Raises ClusterError."""
    lines = text.splitlines()
    try:
        if len(lines) == 1 or not lines or not _is_record(lines[0]):
            whole = json.loads(text)
            found = whole.get("log") if isinstance(whole, dict) and "call" not in whole else [whole]
        else:
            found = [json.loads(line) for line in lines]
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"{where}: not a placement log: {error}") from None
    if not isinstance(found, list) or not all(isinstance(one, dict) and "call" in one for one in found) or not found:
        raise ClusterError(f"{where}: holds no placement log; is placementLog set for the extender?")
    return found


def _is_record(line: str) -> bool:
    try:
        return "call" in json.loads(line)
    except (ValueError, TypeError):
        return False


def _text(where: str) -> str:
    try:
        if where.startswith(("http://", "https://")):
            with urlopen(where, timeout=_TIMEOUT) as answer:  # noqa: S310  (http and https alone)
                found = answer.read(MOST_BYTES + 1)
            if len(found) > MOST_BYTES:
                raise ClusterError(f"{where}: the answer is larger than {MOST_BYTES >> 20} MiB")
            return str(found.decode())
        return read_text(where, MOST_BYTES)
    except UnreadableError as error:
        raise ClusterError(str(error)) from None
    except HTTPError as error:
        words = " ".join(error.read(_MOST_WORDS).decode(errors="replace").split())
        raise ClusterError(f"{where}: {words or error}") from None
    except (OSError, URLError, UnicodeDecodeError) as error:
        raise ClusterError(f"{where}: {error}") from None


def _note(words: str) -> None:
    messages.note(f"{words}; its defaults are taken")
