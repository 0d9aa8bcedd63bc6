"""Queries over TLS: beside the plain port, or alone where clients show certificates; files may change meanwhile."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from authorities import CLIENT, PAST, Authority, put
from hetserve_router.router import Router
from hetserve_router.settings import RouterSettings
from hetserve_shell.tls import rotation
from hetserve_shell.tls.rotation import CertificateError
from router_scene import HOST, RouterScene, routing

NAME = "router.example"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "one")


def settings(folder: Path, *, asks: bool = False) -> dict[str, Any]:
    files = {"certificate": f"{folder}/tls.crt", "key": f"{folder}/tls.key"}
    return {"tls": {"port": 0, **files, **({"clientCa": f"{folder}/ca.crt"} if asks else {})}}


@asynccontextmanager
async def client(scene: RouterScene, context: ssl.SSLContext) -> AsyncIterator[httpx.AsyncClient]:
    base = "https://{}:{}".format(*scene.router.addresses["tls"])
    async with httpx.AsyncClient(base_url=base, verify=context, trust_env=False) as made:
        yield made


async def served(scene: RouterScene, by: httpx.AsyncClient) -> httpx.Response:
    """A query of 40 kB that the instance answers with as much."""
    tensor = {"name": "x", "shape": [1], "datatype": "FP32", "data": [0] * 20_000}
    sent = by.post("/v2/models/rm2/infer", json={"inputs": [tensor]}, headers=HOST, extensions={"sni_hostname": NAME})
    asking = asyncio.create_task(sent)
    held = await scene.instances["a"].next()
    held.answer(200, bytes(held.body))
    return await asking


async def test_queries_come_by_both_ports_where_no_client_needs_a_certificate(
    tmp_path: Path, authority: Authority
) -> None:
    put(tmp_path, authority.server(NAME))
    async with routing("a", settings=settings(tmp_path)) as scene:
        async with client(scene, ssl.create_default_context(cafile=authority.certificate)) as secured:
            answer = await served(scene, secured)
            assert (answer.status_code, len(answer.content) > 40_000) == (200, True)
        assert (await served(scene, scene.client)).status_code == 200


async def test_where_clients_show_certificates_no_query_comes_without_one(tmp_path: Path, authority: Authority) -> None:
    put(tmp_path, authority.server(NAME), authority)
    async with routing("a", settings=settings(tmp_path, asks=True)) as scene:
        assert sorted(scene.router.addresses) == ["probes", "tls"], "the plain port would let everybody in"
        async with client(scene, authority.leaf(CLIENT).client(authority.certificate)) as known:
            assert (await served(scene, known)).status_code == 200
        async with client(scene, ssl.create_default_context(cafile=authority.certificate)) as stranger:
            with pytest.raises(ssl.SSLError, match="ALERT_CERTIFICATE_REQUIRED"):
                await stranger.get("/v2/health/live", extensions={"sni_hostname": NAME})


async def test_a_new_certificate_is_served_and_a_new_trust_ends_what_the_old_one_let_in(
    tmp_path: Path, authority: Authority, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "EVERY", 0.01)
    other = Authority(tmp_path_factory.mktemp("pki"), "other")
    put(tmp_path, authority.server(NAME), authority)
    async with routing("a", settings=settings(tmp_path, asks=True)) as scene:
        async with client(scene, authority.leaf(CLIENT).client(authority.certificate)) as known:
            await served(scene, known)
            assert scene.router.queries is not None
            kept = next(iter(scene.router.queries.open))
            put(tmp_path, other.server(NAME), other)
            while kept in scene.router.queries.open:  # noqa: ASYNC110  (of what has no event)
                await asyncio.sleep(0.01)
        async with client(scene, other.leaf(CLIENT).client(other.certificate)) as new:
            assert (await served(scene, new)).status_code == 200


async def test_a_certificate_that_cannot_serve_ends_the_start_with_file_and_remedy(
    tmp_path: Path, authority: Authority
) -> None:
    put(tmp_path, authority.server(NAME, when=PAST))
    made = RouterSettings.model_validate({"port": 0, "probePort": 0, **settings(tmp_path)})
    with pytest.raises(CertificateError, match=r"tls\.crt: router\.example ended on 2020-02-01"):
        await Router(made, ("default",)).run(asyncio.Event())
