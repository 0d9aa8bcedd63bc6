"""The server's side of `kubectl port-forward` over a WebSocket (v4.channel.k8s.io), to a port of this machine.

Channel 0 carries the bytes of the port, channel 1 errors; the first frame of each is the port's number.
"""

from __future__ import annotations

import base64
import hashlib
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial

from websocket._abnf import ABNF, frame_buffer

PROTOCOL = "v4.channel.k8s.io"
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455, section 1.3


def accepted(headers: Mapping[str, str]) -> dict[str, str]:
    """Headers of the 101 that answers an upgrade."""
    digest = hashlib.sha1((headers["Sec-WebSocket-Key"] + _MAGIC).encode()).digest()  # noqa: S324  (the RFC's)
    accept = base64.b64encode(digest).decode()
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
    return upgrade | {"Sec-WebSocket-Accept": accept, "Sec-WebSocket-Protocol": PROTOCOL}


def serve_forward(client: socket.socket, port: int, target: int | None) -> None:
    """Forwards until one side ends. port: the pod's. target: of this machine; None: the pod refuses connections."""
    number = port.to_bytes(2, "little")
    for channel in (b"\x00", b"\x01"):
        _send(client, channel + number)
    if target is None:
        _send(client, b"\x01" + f"error forwarding port {port}: connection refused".encode())
        return
    with socket.create_connection(("127.0.0.1", target), timeout=5.0) as there:
        back = threading.Thread(target=_back, args=(there, client))
        back.start()
        frames = frame_buffer(partial(_received, client), True)
        with suppress(OSError, IndexError):
            while (frame := frames.recv_frame()).opcode == ABNF.OPCODE_BINARY:
                there.sendall(_bytes(frame)[1:])
        with suppress(OSError):
            there.shutdown(socket.SHUT_RDWR)
        back.join()


def _received(client: socket.socket, size: int) -> bytes:
    """Raises ConnectionResetError at the end of the stream, for which a frame would be waited for ever, busily."""
    if not (data := client.recv(size)):
        raise ConnectionResetError
    return data


def _back(there: socket.socket, client: socket.socket) -> None:
    with suppress(OSError):
        while data := there.recv(1 << 16):
            _send(client, b"\x00" + data)
        client.sendall(ABNF(1, 0, 0, 0, ABNF.OPCODE_CLOSE, 0, b"").format())


def _bytes(frame: ABNF) -> bytes:
    return frame.data.encode() if isinstance(frame.data, str) else frame.data


def _send(client: socket.socket, data: bytes) -> None:
    client.sendall(ABNF(1, 0, 0, 0, ABNF.OPCODE_BINARY, 0, data).format())
