"""The connection says who we are, once per request, and keeps credentials' errors apart from the network's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web
from kubernetes.aio.client import Configuration
from kubernetes.aio.config import ConfigException

from hetserve_operator.api import ApiRefusalError, JsonApi
from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.kube.client import KubernetesApi as ExtenderApi
from hetserve_shell.kube.connection import NO_ANSWER, ApiConnection, ApiUnreachableError

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
async def served() -> AsyncIterator[Server]:
    server = Server()
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
    api = JsonApi(ApiConnection(Configuration(host="http://127.0.0.1:1"), user_agent="hetserve-test"))
    with pytest.raises(PermissionError):
        await api.request("GET", "/x")


async def test_a_kubeconfig_that_does_not_exist_is_a_configuration_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigException):
        await ApiConnection.connect(tmp_path / "absent", user_agent="hetserve-test")


async def test_where_nobody_listens_both_shells_say_unreachable_and_the_operator_names_the_request() -> None:
    connection = ApiConnection(Configuration(host="http://127.0.0.1:1"), user_agent="hetserve-test")
    with pytest.raises(NO_ANSWER):
        async with await connection.request("GET", "/x", timeout=SOON):
            pass
    with pytest.raises(ApiUnreachableError, match=r"^GET /x: Cannot connect"):
        await JsonApi(connection).request("GET", "/x")
    with pytest.raises(ApiUnreachableError, match=r"^Cannot connect"):
        await ExtenderApi(connection).request("GET", "/x")
    await connection.close()


async def test_each_shell_judges_an_answer_its_own_way(tmp_path: Path) -> None:
    async with served() as server, connected(server, tmp_path) as connection:
        server.status, server.body = 409, b'{"reason": "Conflict", "message": "too late"}'
        with pytest.raises(ApiRefusalError, match=r"^409 Conflict: too late$"):
            await JsonApi(connection).request("POST", "/x", body={"a": "é"})
        assert server.heard[-1][3] == b'{"a": "\\u00e9"}'
        answer = await ExtenderApi(connection).request("POST", "/x", body={"a": "é"})
        assert (answer.ok, answer.message) == (False, "too late")
        assert server.heard[-1][3] == '{"a":"é"}'.encode()


async def test_a_watch_gives_whole_lines_and_a_refusal_its_words(tmp_path: Path) -> None:
    async with served() as server, connected(server, tmp_path) as connection:
        long = b'{"long": "' + b"x" * 300_000 + b'"}'
        server.body = b'{"a": 1}\n\n' + long + b"\n"
        watched = ExtenderApi(connection).watch("/x", {"watch": "1"})
        assert [line async for line in watched] == [b'{"a": 1}', long]
        server.status, server.body = 410, b'{"message": "too old"}'
        with pytest.raises(ApiStatusError, match=r"^410: too old$"):
            await anext(ExtenderApi(connection).watch("/x", {"watch": "1"}))
