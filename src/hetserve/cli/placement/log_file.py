"""Where a placement log is read from: a file, a URL of the extender's probe port, or the leader of a cluster."""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from hetserve.cli.cluster.client import Cluster, ClusterError, pod_path
from hetserve.cli.cluster.installed import extender_settings
from hetserve.files import UnreadableError, read_text

Record = dict[str, Any]
PROBE_PORT: Final = 8889
MOST_BYTES: Final = 1 << 30
"""Of a dump or a log: what the setting placementLog can ask the extender to keep at most."""
_TIMEOUT: Final = 30.0
_MOST_WORDS: Final = 1000
_EXTENDERS: Final = "app.kubernetes.io/name=hetserve,app.kubernetes.io/component=extender"


def read_log(where: str) -> list[Record]:
    """Records of a file ("-": standard input) or an http URL. Raises ClusterError, naming it, for anything else."""
    return parse_log(_text(where), where)


def live_log(cluster: Cluster, namespace: str) -> list[Record]:
    """The log of the leading extender, through the API server's proxy. Raises ClusterError where there is none."""
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
    """Records of JSON lines, or of a dump that holds a log."""
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
    except HTTPError as error:  # what the extender says of itself tells more than the status
        words = " ".join(error.read(_MOST_WORDS).decode(errors="replace").split())
        raise ClusterError(f"{where}: {words or error}") from None
    except (OSError, URLError, UnicodeDecodeError) as error:
        raise ClusterError(f"{where}: {error}") from None
