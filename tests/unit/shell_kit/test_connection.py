"""The connection says who we are, once per request, and keeps credentials' errors apart from the network's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException

from hetserve_shell.kube.client import Answer, ApiStatusError, KubernetesApi
from hetserve_shell.kube.connection import LARGEST_KUBECONFIG, NO_ANSWER, ApiConnection, ApiUnreachableError
from hetserve_shell.kube.pages import Pages

SOON = aiohttp.ClientTimeout(total=10.0)


@dataclass
class Server:
    """Writes down what it is asked and answers `status` with `body`."""

    url: str = ""
    status: int = 200
    body: bytes = b"{}"
    heard: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        self.heard.append((request.method, request.path_qs, dict(request.headers), await request.read()))
        return web.Response(status=self.status, body=self.body)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the last request."""
        return self.heard[-1][2]


@asynccontextmanager
async def served(server: Server | None = None) -> AsyncIterator[Server]:
    server = server or Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connected(server: Server, folder: Path) -> AsyncIterator[ApiConnection]:
    path = folder / "kubeconfig"
    context = {"cluster": "c", "user": "u"}
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": context}],
        "current-context": "x",
    }
    path.write_text(yaml.safe_dump(content))
    connection = await ApiConnection.connect(path, user_agent="hetserve-test")
    try:
        yield connection
    finally:
        await connection.close()


async def test_a_request_carries_the_token_our_name_and_the_type_of_its_body(tmp_path: Path) -> None:
    async with served() as server, connected(server, tmp_path) as connection:
        exchange = await connection.request(
            "PATCH", "/x", query={"dryRun": "All"}, body=b"[]", content_type="a/b", timeout=SOON
        )
        async with exchange as response:
            assert (response.status, await response.read()) == (200, b"{}")
        method, path, headers, body = server.heard[0]
        assert (method, path, body) == ("PATCH", "/x?dryRun=All", b"[]")
        assert headers["Authorization"] == "Bearer secret"
        assert headers["User-Agent"] == "hetserve-test"
        assert (headers["Accept"], headers["Content-Type"]) == ("application/json", "a/b")


async def test_a_request_without_a_body_names_no_type_and_is_not_sent_before_it_is_entered(tmp_path: Path) -> None:
    async with served() as server, connected(server, tmp_path) as connection:
        exchange = await connection.request("GET", "/x", timeout=SOON)
        assert server.heard == []
        async with exchange as response:
            await response.read()
        assert "Content-Type" not in server.headers


async def test_a_token_renewed_on_disk_is_used_by_the_next_request() -> None:
    async with served() as server:
        configuration = Configuration(host=server.url, api_key={"BearerToken": "old"})
        configuration.api_key_prefix["BearerToken"] = "Bearer"
        connection = ApiConnection(configuration, user_agent="hetserve-test")
        sent = []
        for token in ("old", "new"):
            configuration.api_key["BearerToken"] = token
            async with await connection.request("GET", "/x", timeout=SOON) as response:
                await response.read()
            sent.append(server.headers["Authorization"])
        await connection.close()
        assert sent == ["Bearer old", "Bearer new"]


async def test_credentials_that_cannot_be_read_are_not_taken_for_a_lost_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unreadable(self: Configuration) -> dict[str, object]:
        raise PermissionError("token")

    monkeypatch.setattr(Configuration, "auth_settings", unreadable)
    api = KubernetesApi(ApiConnection(Configuration(host="http://127.0.0.1:1"), user_agent="hetserve-test"))
    with pytest.raises(PermissionError):
        await api.request("GET", "/x")


async def test_a_kubeconfig_that_does_not_exist_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigException):
        await ApiConnection.connect(tmp_path / "absent", user_agent="hetserve-test")


@pytest.mark.parametrize("path", ["/dev/zero", "large"])
async def test_what_cannot_be_a_kubeconfig_is_not_read_whole(tmp_path: Path, path: str) -> None:
    (tmp_path / "large").write_bytes(b"#" * (LARGEST_KUBECONFIG + 1))
    with pytest.raises(ConfigException, match=path):
        await ApiConnection.connect(tmp_path / path, user_agent="hetserve-test")


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:1080", "https://127.0.0.1", "127.0.0.1:3128"])
def test_a_proxy_of_another_kind_is_refused_at_the_start(proxy: str) -> None:
    with pytest.raises(ConfigException, match="only proxies of the form http://HOST:PORT"):
        ApiConnection(Configuration(host="http://127.0.0.1:1", proxy=proxy), user_agent="hetserve-test")


async def test_if_nobody_listens_the_error_names_the_request() -> None:
    connection = ApiConnection(Configuration(host="http://127.0.0.1:1"), user_agent="hetserve-test")
    with pytest.raises(NO_ANSWER):
        async with await connection.request("GET", "/x", timeout=SOON):
            pass
    with pytest.raises(ApiUnreachableError, match=r"^GET /x: Cannot connect"):
        await KubernetesApi(connection).request("GET", "/x")
    with pytest.raises(ApiUnreachableError, match=r"^watch of /x: Cannot connect"):
        await anext(KubernetesApi(connection).watch("/x", {"watch": "1"}))
    await connection.close()


async def test_a_refusal_is_an_answer_until_its_content_is_asked_for(tmp_path: Path) -> None:
    async with served() as server, connected(server, tmp_path) as connection:
        server.status, server.body = 409, b'{"reason": "Conflict", "message": "too late"}'
        answer = await KubernetesApi(connection).request("POST", "/x", body={"a": "é"})
        assert (answer.ok, answer.message) == (False, "too late")
        with pytest.raises(ApiStatusError, match=r"^409 Conflict: too late$"):
            answer.content()
        assert server.heard[-1][3] == '{"a":"é"}'.encode()


@pytest.mark.parametrize(
    ("body", "message"),
    [(b"", "the API server answered 502"), (b"no <b>way", "no <b>way"), (b"[1]", "the API server answered 502")],
)
def test_a_refusal_that_is_no_status_keeps_its_words(body: bytes, message: str) -> None:
    assert Answer(502, body).message == message


async def test_a_watch_gives_whole_lines_and_a_refusal_its_words(tmp_path: Path) -> None:
    async with served() as server, connected(server, tmp_path) as connection:
        long = b'{"long": "' + b"x" * 300_000 + b'"}'
        server.body = b'{"a": 1}\n\n' + long + b"\n"
        watched = KubernetesApi(connection).watch("/x", {"watch": "1"})
        assert [line async for line in watched] == [b'{"a": 1}', long]
        server.status, server.body = 410, b'{"message": "too old"}'
        with pytest.raises(ApiStatusError, match=r"^410: too old$"):
            await anext(KubernetesApi(connection).watch("/x", {"watch": "1"}))


@pytest.mark.deep
async def test_a_list_that_is_too_large_is_read_in_shorter_pages(tmp_path: Path) -> None:
    """Of objects with a MiB each, and of one that is always too large."""
    asked: list[int] = []

    class Large(Server):
        async def answer(self, request: web.Request) -> web.Response:
            limit, first = int(request.query["limit"]), int(request.query.get("continue", 0))
            asked.append(limit)
            end = min(first + limit, 150)
            items = [{"metadata": {"name": str(n)}, "data": "x" * (1 << 20)} for n in range(first, end)]
            more = {"continue": str(end)} if end < 150 else {}
            return web.json_response({"items": items, "metadata": {"resourceVersion": "7", **more}})

    async with served(Large()) as server, connected(server, tmp_path) as connection:
        api = KubernetesApi(connection)
        found = [raw["metadata"]["name"] for raw in await Pages(api, "/api/v1/pods").all()]
        assert found == [str(number) for number in range(150)]
        assert asked[:2] == [100, 50]
        with pytest.raises(ApiUnreachableError, match="more than 67,108,864 bytes"):
            await api.request("GET", "/api/v1/pods", query={"limit": "100"})
        api.close()


async def test_a_watch_without_an_end_of_line_ends(tmp_path: Path) -> None:
    class Endless(Server):
        async def answer(self, request: web.Request) -> web.StreamResponse:  # type: ignore[override]
            response = web.StreamResponse(status=self.status)
            await response.prepare(request)
            with suppress(ConnectionError):
                for _ in range(400):
                    await response.write(bytes(1 << 20))
            return response

    async with served(Endless()) as server, connected(server, tmp_path) as connection:
        for status, error in ((200, ApiUnreachableError), (500, ApiStatusError)):
            server.status = status
            with pytest.raises(error, match=r"more than|500"):
                _ = [line async for line in KubernetesApi(connection).watch("/api/v1/pods", {})]
