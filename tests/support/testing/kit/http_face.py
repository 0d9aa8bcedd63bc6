"""FakeApiServer behind a socket, for clients with their own transport."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from testing.kit.apiserver import FakeApiServer
from testing.kit.port_forward import accepted, serve_forward

Json = dict[str, Any]


@dataclass(slots=True)
class HttpFace:
    """The objects served and the requests received.

    texts: bodies of paths without an object. status: other than 200, the answer to everything. events: sent once by a
    watch of a path; hold: awaited before. refused: by path, the status of every answer. forwards: port of this machine
    by the path of a pod; None: it refuses.
    """

    api: FakeApiServer = field(default_factory=FakeApiServer)
    texts: dict[str, str] = field(default_factory=dict)
    events: dict[str, list[Json | str]] = field(default_factory=dict)
    forwards: dict[str, int | None] = field(default_factory=dict)
    status: int = 200
    refused: dict[str, int] = field(default_factory=dict)
    hold: threading.Event | None = None
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    port: int = 0

    @classmethod
    @contextmanager
    def serving(cls, *objects: Json) -> Iterator[Self]:
        """Serves objects on a free port of 127.0.0.1."""
        face = cls()
        for raw in objects:
            face.api.add(raw)
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(face))
        server.daemon_threads = True
        face.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield face
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def kubeconfig(self, folder: Path, namespace: str = "team") -> Path:
        """Writes a kubeconfig with a token and a context in `namespace`."""
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "users": [{"name": "me", "user": {"token": "secret"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": namespace}}],
        }
        path = folder / "kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def answer(
        self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str
    ) -> tuple[int, bytes]:
        status = self.refused.get(path, self.status)
        if status != 200:
            return status, json.dumps({"message": f"refused with {status}"}).encode()
        if "watch" in query:
            if self.hold is not None:
                self.hold.wait(5.0)
            return 200, "".join(map(_line, self.events.pop(path, []))).encode()
        if path in self.texts:
            return 200, self.texts[path].encode()
        answer = self.api.answer(method, path, query, body, content_type)
        return answer.status, answer.body


def _line(event: Json | str) -> str:
    return f"{event if isinstance(event, str) else json.dumps(event)}\n"


def _handler(face: HttpFace) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pod = urlsplit(self.path).path.removesuffix("/portforward")
            if "Upgrade" in self.headers and pod in face.forwards:
                self._forward(face.forwards[pod])
            else:
                self._serve("GET")

        def _forward(self, target: int | None) -> None:
            face.requests.append(("UPGRADE", self.path, {"headers": dict(self.headers)}))
            self.protocol_version = "HTTP/1.1"
            self.send_response(101)
            for name, value in accepted(dict(self.headers)).items():
                self.send_header(name, value)
            self.end_headers()
            serve_forward(self.connection, int(parse_qs(urlsplit(self.path).query)["ports"][0]), target)
            self.close_connection = True

        def do_POST(self) -> None:
            self._serve("POST")

        def do_PATCH(self) -> None:
            self._serve("PATCH")

        def _serve(self, method: str) -> None:
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            body = json.loads(content) if content else None
            face.requests.append((method, url.path, {"query": query, "headers": dict(self.headers), "body": body}))
            status, text = face.answer(method, url.path, query, body, self.headers.get("Content-Type", ""))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Say nothing on stderr."""

    return Handler
