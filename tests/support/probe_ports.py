"""A probe port that answers with a text, to the owners of tokens or to everybody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

LOG = '{"call": "start", "args": {}}\n{"call": "other", "args": {}}\n'


@dataclass
class ProbePort:
    """A port that shows its text to the owners of `tokens`; none: to everybody. seen: Authorization of each request."""

    tokens: set[str] = field(default_factory=lambda: {"secret"})
    text: str = LOG
    moved: str = ""
    seen: list[str | None] = field(default_factory=list)
    port: int = 0

    def answer(self, authorization: str | None) -> tuple[int, bytes]:
        self.seen.append(authorization)
        if self.tokens and authorization is None:
            return 401, b'{"error": "a token, please"}'
        if self.tokens and str(authorization).removeprefix("Bearer ") not in self.tokens:
            return 403, b'{"error": "\'ann\' may not get /log"}'
        return (302, b"") if self.moved else (200, self.text.encode())


@contextmanager
def serving(probe: ProbePort) -> Iterator[ProbePort]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = probe.answer(self.headers.get("Authorization"))
            self.send_response(status)
            if status == 302:
                self.send_header("Location", probe.moved)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    probe.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield probe
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
