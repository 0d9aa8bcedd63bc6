"""Listening sockets."""

from __future__ import annotations

import errno
import socket


class PortInUseError(OSError):
    """Another socket listens on the port."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises PortInUseError or another OSError, with host and port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        kind = PortInUseError if error.errno == errno.EADDRINUSE else OSError
        raise kind(f"cannot listen on {host}:{port}: {error.strerror}") from None
