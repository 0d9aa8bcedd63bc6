"""An instance as the router asks it: its kept connections, and whether it is ready."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetserve_shell.http.calls import Call, CallFailure, Upstream
from hetserve_shell.http.takers import Headers

if TYPE_CHECKING:
    from hetserve_router.exchange import QueryExchange


@dataclass(frozen=True, slots=True)
class InstanceAddress:
    """An instance that may be asked. uid: of its pod; name: what clients and metrics see."""

    uid: str
    name: str
    type: str
    host: str
    port: int


class InstanceLink:
    """number: the core's. host: as requests name it. row: of its figures.

    query: that it serves; counted: until when that is in its figures [s]. is_draining: it gets none, also before the
    core knows it. failure: what was heard of it last, if that is one. has_left: once it serves none it is forgotten.
    """

    query: QueryExchange | None = None
    counted = 0.0
    is_draining = True
    failure = ""
    has_left = False

    def __init__(self, number: int, address: InstanceAddress, row: int) -> None:
        self.number, self.address, self.row = number, address, row
        self.name = address.name
        self.upstream = Upstream(address.host, address.port)
        shown = f"[{address.host}]" if ":" in address.host else address.host
        self.host = f"{shown}:{address.port}".encode()

    def probe(
        self, model: str, heard: Callable[[bool], None], later: Callable[[float, Callable[[], None]], object]
    ) -> None:
        """Asks whether the model is ready; says so once, within a second. later: as the loop's `call_later`."""
        request = b"GET /v2/models/%b/ready HTTP/1.1\r\nhost: %b\r\n\r\n" % (model.encode(), self.host)
        probe = _Probe(heard)
        probe.call = self.upstream.send(request, b"", probe)
        later(1.0, probe.give_up)


class _Probe:
    def __init__(self, heard: Callable[[bool], None]) -> None:
        self._heard: Callable[[bool], None] | None = heard
        self._status = 0
        self.call: Call | None = None

    def on_head(self, status: int, _headers: Headers) -> None:
        self._status = status

    def on_piece(self, piece: bytes) -> None:
        """Only the status counts."""

    def on_end(self) -> None:
        self._say(200 <= self._status < 300)

    def on_failed(self, _failure: CallFailure, _reason: str) -> None:
        self._say(False)

    def give_up(self) -> None:
        if self._heard is not None and self.call is not None:
            self.call.cancel()
        self._say(False)

    def _say(self, is_ready: bool) -> None:
        heard, self._heard = self._heard, None
        if heard is not None:
            heard(is_ready)
