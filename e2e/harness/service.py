"""A Kubernetes Service without a network: chooses an endpoint per connection."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

import httpx

from harness.components import HOST
from harness.kube import ApiError

BLOCK: Final = 65_536


class Endpoint(NamedTuple):
    pod: str
    port: int


class Service:
    def __init__(self, choose: Callable[[], Endpoint | None]) -> None:
        self._choose = choose
        self._listener = socket.create_server((HOST, 0))
        self.url = "http://{}:{}".format(*self._listener.getsockname())
        self.made: list[str] = []
        """The pod of each connection, in order."""
        self._open: Counter[str] = Counter()
        threading.Thread(target=self._accept, name="service", daemon=True).start()

    def open_to(self, pod: str) -> int:
        """Open connections."""
        return self._open[pod]

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._lead, args=(client,), daemon=True).start()

    def _lead(self, client: socket.socket) -> None:
        with client, suppress(OSError, ApiError, httpx.TransportError):
            endpoint = self._choose()
            if endpoint is None:
                return
            with socket.create_connection((HOST, endpoint.port)) as server:
                self.made.append(endpoint.pod)
                self._open[endpoint.pod] += 1
                try:
                    _carry_both(client, server)
                finally:
                    self._open[endpoint.pod] -= 1


def _carry_both(client: socket.socket, server: socket.socket) -> None:
    back = threading.Thread(target=_carry, args=(server, client), daemon=True)
    back.start()
    _carry(client, server)
    back.join()


def _carry(source: socket.socket, sink: socket.socket) -> None:
    """Copies until one side ends."""
    with suppress(OSError):
        while data := source.recv(BLOCK):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@contextmanager
def service(choose: Callable[[], Endpoint | None]) -> Iterator[Service]:
    """`choose`: the endpoint of a new connection, or None."""
    made = Service(choose)
    try:
        yield made
    finally:
        made.close()
