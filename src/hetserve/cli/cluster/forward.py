"""One GET to a port of a pod, forwarded by the API server: over its TLS, and with a header that it would not pass on.

The API server's proxy takes the Authorization header for itself; bytes of a forwarded port are the pod's.
https://kubernetes.io/docs/tasks/access-application-cluster/port-forward-access-application-cluster/
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from hetserve.cli.cluster.client import ClusterClient, ClusterError, pod_path

CONNECT_WITHIN: Final = 10.0
ANSWER_WITHIN: Final = 60.0


def get_forwarded(
    cluster: ClusterClient, pod: tuple[str, str], port: int, path: str, headers: Mapping[str, str], *, most: int
) -> tuple[int, bytes]:
    """(status, body) of a GET by a pod's port. pod: namespace and name. most: bytes of the body.

    Raises ClusterError; with status 403 if the caller may not forward ports.
    """
    from kubernetes.stream.ws_client import PortForward  # noqa: PLC0415

    forward: Any = PortForward(_websocket(cluster, pod, port), [port])  # type: ignore[no-untyped-call]
    try:
        socket = forward.socket(port)
        socket.settimeout(ANSWER_WITHIN)
        connection = http.client.HTTPConnection(f"{pod[1]}.{pod[0]}", timeout=ANSWER_WITHIN)
        connection.sock = socket
        with closing(connection):
            connection.request("GET", path, headers={**headers, "Connection": "close"})
            answer = connection.getresponse()
            body = answer.read(most + 1)
    except (OSError, http.client.HTTPException) as error:
        words = " ".join(str(forward.error(port) or error or type(error).__name__).split())
        raise ClusterError(f"port {port} of pod {'/'.join(pod)} cannot be reached: {words}") from None
    finally:
        forward.close()
    if len(body) > most:
        raise ClusterError(f"port {port} of pod {'/'.join(pod)}: the answer is larger than {most >> 20} MiB")
    return answer.status, body


def _websocket(cluster: ClusterClient, pod: tuple[str, str], port: int) -> Any:
    """An open stream to a pod's port. Raises ClusterError."""
    import websocket  # noqa: PLC0415
    from kubernetes.stream.ws_client import create_websocket, get_websocket_url  # noqa: PLC0415

    target = f"{cluster.host}{pod_path(*pod)}/portforward"
    url = get_websocket_url(target, [("ports", str(port))])  # type: ignore[no-untyped-call]
    headers = {"sec-websocket-protocol": "v4.channel.k8s.io"}
    token = cluster.token()
    if token:
        headers["authorization"] = f"Bearer {token}"
    websocket.setdefaulttimeout(CONNECT_WITHIN)
    try:
        return create_websocket(cluster.configuration, url, headers)  # type: ignore[no-untyped-call]
    except websocket.WebSocketBadStatusException as error:
        words = f"ports of pod {'/'.join(pod)} cannot be forwarded: {_message(error)}"
        raise ClusterError(words, int(error.status_code)) from None
    except (websocket.WebSocketException, OSError) as error:
        words = " ".join(str(error).split()) or type(error).__name__
        raise ClusterError(f"ports of pod {'/'.join(pod)} cannot be forwarded: {words}") from None
    finally:
        websocket.setdefaulttimeout(None)


def _message(error: Any) -> str:
    """The API server's words."""
    try:
        return str(json.loads(error.resp_body)["message"])
    except (TypeError, ValueError, KeyError):
        return f"the API server answered {error.status_code}"
