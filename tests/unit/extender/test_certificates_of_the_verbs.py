"""The extender over mutual TLS: its verbs, its look at itself, its metrics, and how it refuses to start."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from authorities import CLIENT, PAST, SERVER, Authority, put
from harness import limits
from hetserve_extender.extender import Extender
from hetserve_extender.leader.fitness import reach
from hetserve_extender.main import main
from hetserve_extender.settings import Settings, TlsOptions
from hetserve_shell.settings import SettingsError, load_settings
from hetserve_shell.tls import rotation
from http_clients import until
from testing.cluster import gpu_node, gpu_pod
from testing.extender import released_lease
from testing.kit.apiserver import FakeApiServer


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "one")


@pytest.fixture
def folder(tmp_path: Path, authority: Authority) -> Path:
    return put(tmp_path / "tls", authority.server(), authority)


def options(folder: Path) -> TlsOptions:
    cert, key, ca = (str(folder / name) for name in ("tls.crt", "tls.key", "ca.crt"))
    return TlsOptions(cert_file=cert, key_file=key, client_ca_file=ca, client_names=(CLIENT,))


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Extender]:
    """An extender that leads."""
    api = FakeApiServer()
    api.add(gpu_node("n0"))
    api.add(released_lease())
    api.add(gpu_pod())
    extender = Extender(Settings(host="127.0.0.1", port=0, probe_port=0, tls=options(folder)), api)
    stop = asyncio.Event()
    task = asyncio.create_task(extender.run(stop))
    await until(lambda: "verbs" in extender.addresses and not extender.refusal())
    try:
        yield extender
    finally:
        stop.set()
        await asyncio.wait_for(task, limits.ANSWER)


def client(extender: Extender, context: ssl.SSLContext) -> httpx.AsyncClient:
    host, port = extender.addresses["verbs"]
    return httpx.AsyncClient(base_url=f"https://{host}:{port}", verify=context, trust_env=False, timeout=limits.ANSWER)


NAMED = {"sni_hostname": SERVER}
VERBS = ("filter", "prioritize", "bind", "healthz", "ledger")


async def test_the_verbs_are_for_the_scheduler_alone(authority: Authority, folder: Path) -> None:
    async with running(folder) as extender:
        asking = {"Pod": gpu_pod(), "Nodes": None, "NodeNames": ["n0"]}
        async with client(extender, authority.leaf(CLIENT).client(authority.certificate)) as ours:
            assert (await ours.post("/filter", json=asking, extensions=NAMED)).json()["NodeNames"] == ["n0"]
        bookings = extender.placer.ledger.bookings()
        for context in (
            ssl.create_default_context(cafile=authority.certificate),
            authority.leaf("web").client(authority.certificate),
        ):
            async with client(extender, context) as stranger:
                for verb in VERBS:
                    with pytest.raises((httpx.TransportError, ssl.SSLError)):
                        await stranger.post(f"/{verb}", json=asking, extensions=NAMED)
        assert extender.placer.ledger.bookings() == bookings
        registry = extender.metrics.registry
        assert registry.get_sample_value("hetserve_verbs_refused_clients_total") == 2 * len(VERBS)


async def test_it_reaches_itself_without_a_certificate_and_refuses_nobody(folder: Path) -> None:
    async with running(folder) as extender:
        address = extender.addresses["verbs"]
        for _ in range(3):
            assert await reach(address, tls=True) == ""
        assert await reach(address) != "", "plain HTTP would be no way"
        assert extender.metrics.registry.get_sample_value("hetserve_verbs_refused_clients_total") == 1
        probes = extender.addresses["probes"]
        assert "speaks no TLS" in await reach(probes, tls=True)
    assert "refused" in await reach(address, tls=True) or "Connect call failed" in await reach(address, tls=True)


async def test_a_port_that_only_accepts_is_not_reached() -> None:
    silent = await asyncio.start_server(lambda _r, w: w.close(), "127.0.0.1", 0)
    address = silent.sockets[0].getsockname()[:2]
    assert "closes in the middle of a handshake" in await reach(address, tls=True)
    silent.close()
    await silent.wait_closed()


async def test_metrics_tell_when_certificates_end_and_whether_new_ones_are_in_force(
    authority: Authority, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rotation, "EVERY", 0.02)

    def value(name: str, certificate: str | None = None) -> float | None:
        labels = {"certificate": certificate} if certificate else {}
        return extender.metrics.registry.get_sample_value(name, labels)

    ends = "hetserve_certificate_expiration_timestamp_seconds"
    async with running(folder) as extender:
        first = value(ends, "server")
        assert first is not None
        assert (value(ends, "ca") or 0.0) > first
        assert value(ends, "client") is None
        async with client(extender, authority.leaf(CLIENT, days=2).client(authority.certificate)) as ours:
            await ours.post("/healthz", extensions=NAMED)
        assert (value(ends, "client") or 0.0) == pytest.approx(first - 5 * 86400, abs=60)
        put(folder, authority.server(when=PAST), authority)
        await until(lambda: value("hetserve_certificate_reload_failed") == 1.0)
        assert value(ends, "server") == first
        put(folder, authority.server(days=20), authority)
        await until(lambda: value("hetserve_certificate_reload_failed") == 0.0)
        assert (value(ends, "server") or 0.0) == pytest.approx(first + 13 * 86400, abs=60)


def test_a_certificate_that_cannot_serve_ends_the_process_with_2_and_its_name(
    authority: Authority, folder: Path, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    named = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    users = [{"name": "u", "user": {"token": "t"}}]
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "c", "users": users}
    kubeconfig.write_text(json.dumps({**config, "clusters": [cluster], "contexts": [named]}))
    settings = tmp_path / "settings.yaml"
    settings.write_text(
        Settings(port=0, probe_port=0, tls=options(folder)).model_dump_json(by_alias=True, include={"tls"})
    )
    put(folder, authority.server(when=PAST), authority)
    done = CliRunner().invoke(main, ["--config", str(settings), "--kubeconfig", str(kubeconfig)])
    assert (done.exit_code, done.output) == (
        2,
        f"Error: {folder}/tls.crt: {SERVER} ended on 2020-02-01 00:00 UTC; issue a new one\n",
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"certFile": "/a"}, "tls: .* certFile, keyFile and clientCaFile belong together"),
        ({"clientNames": ["x"]}, "tls: .* clientNames needs certFile"),
        ({"certFile": "/a", "keyFile": "/b", "clientCaFile": "/c", "clientNames": [""]}, "tls.clientNames.0: ''"),
        ({"caFile": "/a"}, "tls.caFile: unknown setting"),
    ],
)
def test_settings_that_do_not_belong_together_are_refused(given: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        load_settings(Settings, None, {"tls": given})


def test_without_files_the_verbs_are_plain() -> None:
    assert Settings().tls.files is None
