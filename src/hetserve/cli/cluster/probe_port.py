"""GET of what a probe port shows, by its URL or forwarded from a pod by the API server.

First without a token, then with one where the port asks for it. The proxy of the API server takes the Authorization
header for itself; bytes of a forwarded port are the pod's.
https://kubernetes.io/docs/tasks/access-application-cluster/port-forward-access-application-cluster/
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import json
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from http import HTTPStatus
from typing import Any, Final
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from hetserve.cli.cluster.client import ClusterClient, ClusterError, line_of, namespaced

TIMEOUT: Final = 30.0
_MOST_WORDS: Final = 1000
Get = Callable[[Mapping[str, str]], tuple[int, bytes]]
"""A GET with more headers: (status, body)."""


class ProbeRefusalError(Exception):
    """An answer other than 200; has the port's words."""

    def __init__(self, words: str, status: int) -> None:
        super().__init__(words)
        self.status = status


def get_shown(get: Get, token: Callable[[], str]) -> bytes:
    """The body of a 200. A port that shows it to everybody is not shown the token. Raises ProbeRefusalError."""
    status, body = get({})
    if status == HTTPStatus.UNAUTHORIZED:
        status, body = get({"Authorization": f"Bearer {token()}"})
    if status != HTTPStatus.OK:
        raise ProbeRefusalError(_words(body) or f"the answer is {status}", status)
    return body


def get_url(url: str, token: Callable[[], str], *, most: int) -> bytes:
    """The body of an http or https URL. Raises ProbeRefusalError, OSError.

    A token goes to this machine alone (a process, or what `kubectl port-forward` has opened) and after no redirection:
    whoever gets it can use it at the API server. most: bytes.
    """

    def get(headers: Mapping[str, str]) -> tuple[int, bytes]:
        status, body = _got(url, headers, most)
        if len(body) > most:
            raise ProbeRefusalError(f"the answer is larger than {most >> 20} MiB", status)
        return status, body

    def own() -> str:
        if not _is_this_machine(url):
            words = (
                "it asks for a bearer token, and yours is shown to this machine alone: "
                "forward the port (kubectl port-forward) and name 127.0.0.1"
            )
            raise ProbeRefusalError(words, HTTPStatus.UNAUTHORIZED)
        return token()

    return get_shown(get, own)


class _Here(HTTPRedirectHandler):
    """Follows no redirection."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _got(url: str, headers: Mapping[str, str], most: int) -> tuple[int, bytes]:
    """(status, body); with headers neither a proxy nor another machine sees them."""
    opener = build_opener(ProxyHandler({}), _Here) if headers else build_opener()
    try:
        with opener.open(Request(url, headers=dict(headers)), timeout=TIMEOUT) as answer:  # noqa: S310
            return answer.status, answer.read(most + 1)
    except HTTPError as error:
        return error.code, error.read(_MOST_WORDS) or str(error).encode()
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP answer: {error}") from None


def _is_this_machine(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _words(body: bytes) -> str:
    """The port's own words: `error` of its JSON, else the text on one line."""
    text = " ".join(body[:_MOST_WORDS].decode(errors="replace").split())
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return str(found["error"]) if isinstance(found, dict) and found.get("error") else text


CONNECT_WITHIN: Final = 10.0
ANSWER_WITHIN: Final = 60.0
"""Seconds without a byte."""
PROTOCOL: Final = "v4.channel.k8s.io"
"""Frames begin with their channel, and the first of each says the port."""
_DATA, _ERROR = 0, 1


def get_forwarded(
    cluster: ClusterClient, pod: tuple[str, str], port: int, path: str, headers: Mapping[str, str], *, most: int
) -> tuple[int, bytes]:
    """(status, body) of a GET by a pod's port. pod: namespace and name. most: bytes of the body.

    Raises ClusterError; with status 403 if the caller may not forward ports.
    """
    where = f"port {port} of pod {'/'.join(pod)}"
    stream = _websocket(cluster, pod, port)
    with ExitStack() as stack:
        stack.callback(stream.shutdown)
        connection: Any = http.client.HTTPConnection(f"{pod[1]}.{pod[0]}")
        connection.sock = _Socket(stream)
        try:
            connection.request("GET", path, headers={**headers, "Connection": "close"})
            answer = connection.getresponse()
            body = bytes(answer.read(most + 1))
        except (OSError, http.client.HTTPException) as error:
            raise ClusterError(f"{where} cannot be reached: {line_of(error)}") from None
    if len(body) > most:
        raise ClusterError(f"{where}: the answer is larger than {most >> 20} MiB")
    return int(answer.status), body


class _Socket:
    """The forwarded port as http.client wants its socket, which it closes before it has read the body."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def sendall(self, data: bytes) -> None:
        self._stream.send_binary(bytes([_DATA]) + data)

    def makefile(self, mode: str) -> io.BufferedReader:  # noqa: ARG002  (http.client reads alone)
        return io.BufferedReader(_Received(self._stream))

    def close(self) -> None:
        """The stream ends with the exchange."""


class _Received(io.RawIOBase):
    """What the pod sends."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._rest = b""
        self._begun: set[int] = set()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Bytes of the pod. Raises OSError with the words of whoever forwards."""
        while not self._rest:
            data = self._next()
            if data is None:
                return 0
            self._rest = data
        taken = self._rest[: len(buffer)]
        self._rest = self._rest[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def _next(self) -> bytes | None:
        """The data of the next frame; None at the end."""
        import websocket  # noqa: PLC0415

        try:
            opcode, frame = self._stream.recv_data_frame(control_frame=True)
        except websocket.WebSocketConnectionClosedException:
            return None
        except websocket.WebSocketException as error:
            raise OSError(line_of(error)) from None
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            return None
        if opcode != websocket.ABNF.OPCODE_BINARY or not frame.data:
            return b""
        channel, data = frame.data[0], bytes(frame.data[1:])
        if channel not in self._begun:
            self._begun.add(channel)
            return b""
        if channel == _ERROR:
            raise OSError(data.decode(errors="replace"))
        return data


def _websocket(cluster: ClusterClient, pod: tuple[str, str], port: int) -> Any:
    """An open stream to a pod's port. Raises ClusterError."""
    import websocket  # noqa: PLC0415
    from kubernetes.stream.ws_client import create_websocket, get_websocket_url  # noqa: PLC0415

    target = cluster.host + namespaced("v1", pod[0], "pods", pod[1], "portforward")
    url = get_websocket_url(target, [("ports", str(port))])  # type: ignore[no-untyped-call]
    headers = {"sec-websocket-protocol": PROTOCOL}
    token = cluster.token()
    if token:
        headers["authorization"] = f"Bearer {token}"
    what = f"ports of pod {'/'.join(pod)} cannot be forwarded"
    websocket.setdefaulttimeout(CONNECT_WITHIN)
    try:
        stream = create_websocket(cluster.configuration, url, headers)  # type: ignore[no-untyped-call]
    except websocket.WebSocketBadStatusException as error:
        raise ClusterError(f"{what}: {_message(error)}", int(error.status_code)) from None
    except (websocket.WebSocketException, OSError) as error:
        raise ClusterError(f"{what}: {line_of(error)}") from None
    finally:
        websocket.setdefaulttimeout(None)
    stream.settimeout(ANSWER_WITHIN)
    return stream


def _message(error: Any) -> str:
    """The API server's words."""
    try:
        return str(json.loads(error.resp_body)["message"])
    except (TypeError, ValueError, KeyError):
        return f"the API server answered {error.status_code}"
