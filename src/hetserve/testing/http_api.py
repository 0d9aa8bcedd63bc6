"""An HTTP server with nodes and pods, for clients that read a cluster: paged lists, one pod, patches, watches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Json = dict[str, Any]


@dataclass(slots=True)
class HttpApi:
    """Served objects and received requests; pods in `alone` appear in no list.

    `status` other than 200 refuses every request with it; watches wait for `hold` if it is set.
    """

    nodes: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    alone: list[Json] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    events: dict[str, list[Json]] = field(default_factory=dict)
    status: int = 200
    hold: threading.Event | None = None
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    port: int = 0

    @classmethod
    @contextmanager
    def serving(cls, nodes: Sequence[Json] = (), pods: Sequence[Json] = ()) -> Iterator[HttpApi]:
        """Serves on a free port of 127.0.0.1 during the block."""
        api = cls(list(nodes), list(pods))
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(api))
        server.daemon_threads = True
        api.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
            server.server_close()

    def kubeconfig(self, folder: Path, namespace: str = "team") -> Path:
        """A kubeconfig with a token and a context in `namespace`, written to `folder`."""
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

    def answer(self, method: str, path: str, query: Mapping[str, str]) -> tuple[int, Any]:
        """Status and content of a request."""
        if self.status != 200:
            return self.status, {"message": f"refused with {self.status}"}
        collection = {"/api/v1/nodes": self.nodes, "/api/v1/pods": self.pods}.get(path)
        if collection is not None:
            return 200, _page(collection, query)
        if path in self.texts:
            return 200, self.texts[path]
        parts = path.split("/")
        if parts[3] == "namespaces" and parts[5:] == ["pods"]:
            return 200, _page([pod for pod in self.pods if pod["metadata"].get("namespace") == parts[4]], query)
        for pod in (*self.pods, *self.alone):
            metadata = pod["metadata"]
            if parts[4:] == [metadata["namespace"], "pods", metadata["name"]]:
                return 200, pod
        return 404, {"message": f"{method} {path} is not there"}


def _page(items: Sequence[Json], query: Mapping[str, str]) -> Json:
    first, limit = int(query.get("continue", 0)), int(query.get("limit", len(items) or 1))
    metadata = {"resourceVersion": "7"}
    if first + limit < len(items):
        metadata["continue"] = str(first + limit)
    return {"metadata": metadata, "items": list(items[first : first + limit])}


def _handler(api: HttpApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve("GET")

        def do_PATCH(self) -> None:
            self._serve("PATCH")

        def _serve(self, method: str) -> None:
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked = {"query": query, "headers": dict(self.headers), "body": json.loads(body) if body else None}
            api.requests.append((method, url.path, asked))
            status, content = api.answer(method, url.path, query)
            if status == 200 and "watch" in query:
                if api.hold is not None:
                    api.hold.wait(5.0)
                content = "".join(json.dumps(event) + "\n" for event in api.events.pop(url.path, []))
            text = content if isinstance(content, str) else json.dumps(content)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Logs nothing."""

    return Handler
