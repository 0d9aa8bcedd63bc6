"""Certificates: what they say of themselves, what cannot serve and why, and files that change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from authorities import CLIENT, PAST, SERVER, Authority, put
from harness import limits
from hetserve.base.units import Seconds
from hetserve_shell.tls import rotation
from hetserve_shell.tls.certificates import day, read_certificates
from hetserve_shell.tls.rotation import CertificateError, Rotation, TlsFiles, read_identity

NOW = Seconds(datetime.now(UTC).timestamp() + 3600)
"""Ahead: certificates are made when a test runs, which in a whole run is many minutes after this module is read."""
FUTURE = ("20600101000000Z", "20610101000000Z")


def files(folder: Path) -> TlsFiles:
    return TlsFiles(*(folder / name for name in ("tls.crt", "tls.key", "ca.crt")))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "one")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pki"), "other")


def test_a_certificate_is_read_as_openssl_reads_it(authority: Authority, other: Authority) -> None:
    leaf = authority.leaf(CLIENT, when=("20260101000000Z", "20260401123000Z"))
    (read,) = read_certificates(f"comment\n{leaf.pem}{leaf.key.read_text()}")
    assert read.names == (CLIENT,), "the same common and DNS name is told once"
    assert (day(read.not_before), day(read.not_after)) == ("2026-01-01 00:00 UTC", "2026-04-01 12:30 UTC")
    assert [one.names for one in read_certificates(authority.pem + other.pem)] == [("one",), ("other",)]
    (late,) = read_certificates(authority.leaf("x", when=FUTURE).pem)
    assert day(late.not_after) == "2061-01-01 00:00 UTC", "years beyond 2049 are written otherwise"


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 40, 200])
def test_a_certificate_that_is_cut_off_is_refused_by_its_number(authority: Authority, cut: int) -> None:
    der = ssl.PEM_cert_to_DER_cert(authority.pem)
    with pytest.raises(ValueError, match="certificate 2 cannot be read"):
        read_certificates(authority.pem + ssl.DER_cert_to_PEM_cert(der[:cut]))


@pytest.mark.parametrize("text", ["-----BEGIN CERTIFICATE-----\nno base64!\n-----END CERTIFICATE-----", "AAAA"])
def test_what_is_no_certificate_is_refused_or_none(text: str) -> None:
    if text == "AAAA":
        assert read_certificates(text) == ()
    else:
        with pytest.raises(ValueError, match="certificate 1 cannot be read"):
            read_certificates(text)


@dataclass
class Bench:
    """A folder with files that serve."""

    folder: Path
    authority: Authority
    other: Authority
    taken: list[str] = field(default_factory=list)

    def rotation(self) -> Rotation:
        return Rotation(files(self.folder), on_trust=lambda: self.taken.append("trust"))


@pytest.fixture
def bench(tmp_path: Path, authority: Authority, other: Authority) -> Bench:
    return Bench(put(tmp_path / "tls", authority.server(), authority), authority, other)


def write(name: str, text: Callable[[Bench], str]) -> Callable[[Bench], object]:
    return lambda bench: (bench.folder / name).write_text(text(bench))


BROKEN: dict[str, tuple[Callable[[Bench], object], str, str]] = {
    "no certificate": (lambda b: (b.folder / "tls.crt").unlink(), "tls.crt", "cannot be read: No such file"),
    "no key": (lambda b: (b.folder / "tls.key").unlink(), "tls.key", "cannot be read: No such file"),
    "no authorities": (lambda b: (b.folder / "ca.crt").unlink(), "ca.crt", "cannot be read: No such file"),
    "empty authorities": (write("ca.crt", lambda _: "\n"), "ca.crt", "is empty"),
    "authorities that are a key": (
        write("ca.crt", lambda b: b.authority.key.read_text()),
        "ca.crt",
        "holds no certificate",
    ),
    "an authority that is cut off": (
        write("ca.crt", lambda b: b.authority.pem[:60] + "\n" + b.authority.pem[-27:]),
        "ca.crt",
        "certificate 1 cannot be read",
    ),
    "another's key": (
        write("tls.key", lambda b: b.other.server().key.read_text()),
        "tls.key",
        "is not the key of the certificate in",
    ),
    "a key that is none": (write("tls.key", lambda _: "x"), "tls.key", "cannot be used"),
    "ended": (
        lambda b: put(b.folder, b.authority.server(when=PAST), b.authority),
        "tls.crt",
        f"{SERVER} ended on 2020-02-01",
    ),
    "not yet": (
        lambda b: put(b.folder, b.authority.server(when=FUTURE), b.authority),
        "tls.crt",
        f"{SERVER} holds from 2060-01-01 00:00 UTC on",
    ),
    "much too large": (write("tls.crt", lambda _: "x" * (1 << 20) + "x"), "tls.crt", "is larger than the 1 MiB"),
}


@pytest.mark.parametrize(("broken", "name", "words"), BROKEN.values(), ids=BROKEN)
def test_files_that_cannot_serve_are_named_with_a_remedy(
    bench: Bench, broken: Callable[[Bench], object], name: str, words: str
) -> None:
    broken(bench)
    with pytest.raises(CertificateError) as refused:
        read_identity(files(bench.folder), NOW)
    text = str(refused.value)
    assert text.startswith(f"{bench.folder / name}: ")
    assert words in text
    assert ";" in text, "a remedy"


def test_a_key_with_a_password_is_refused_without_asking(bench: Bench) -> None:
    (bench.folder / "tls.key").write_text(
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: "
        "AES-128-CBC,00112233445566778899AABBCCDDEEFF\n\nAAAA\n-----END RSA PRIVATE KEY-----\n"
    )
    with pytest.raises(CertificateError, match="unencrypted private key"):
        read_identity(files(bench.folder), NOW)


def test_an_authority_that_ended_beside_one_that_holds_does_no_harm(bench: Bench) -> None:
    (bench.folder / "ca.crt").write_text(bench.authority.leaf("ended", when=PAST).pem + bench.authority.pem)
    assert read_identity(files(bench.folder), NOW).ends > NOW


def test_a_new_leaf_is_taken_and_leaves_the_trust(bench: Bench) -> None:
    made = bench.rotation()
    before = made.context
    made.look()
    assert made.context is before, "nothing changed"
    put(bench.folder, bench.authority.server(days=20), bench.authority)
    made.look()
    assert made.context is not before
    assert read_identity(made.files, NOW).ends > NOW + 19 * 86400
    assert bench.taken == []
    put(bench.folder, bench.authority.server(), bench.authority, bench.other)
    made.look()
    assert bench.taken == ["trust"]


def test_files_that_cannot_serve_leave_what_is_in_force_and_are_told_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    made = bench.rotation()
    before = made.context
    put(bench.folder, bench.authority.server(when=PAST), bench.authority)
    made.look()
    assert (made.failing, caplog.messages) == ("", []), "files are replaced one after the other"
    for _ in range(3):
        made.look()
    assert made.context is before
    assert "ended on 2020-02-01" in made.failing
    (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert told.getMessage().endswith("the certificates read before stay in force")
    put(bench.folder, bench.authority.server(), bench.authority)
    made.look()
    assert (made.failing, made.context is before) == ("", False)


def test_files_that_vanish_and_come_back_are_taken_again(bench: Bench) -> None:
    made = bench.rotation()
    (bench.folder / "tls.key").unlink()
    made.look()
    made.look()
    assert "tls.key: cannot be read" in made.failing
    put(bench.folder, bench.authority.server(), bench.authority)
    made.look()
    assert made.failing == ""


def test_a_certificate_that_holds_only_later_is_taken_when_it_does(bench: Bench) -> None:
    clock = [NOW]
    made = Rotation(files(bench.folder), wall=lambda: clock[0])
    before = made.context
    put(bench.folder, bench.authority.server(when=FUTURE), bench.authority)
    for _ in range(2):
        made.look()
    assert made.context is before
    clock[0] = Seconds(datetime(2060, 6, 1, tzinfo=UTC).timestamp())
    (bench.folder / "ca.crt").write_text(bench.authority.leaf("a", when=("20600101000000Z", "20610101000000Z")).pem)
    made.look()
    assert made.context is not before


async def test_the_files_are_looked_at_again_and_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "EVERY", 0.01)
    made = bench.rotation()
    before = made.context
    running = asyncio.create_task(made.run())
    put(bench.folder, bench.authority.server(), bench.authority)
    async with asyncio.timeout(limits.ANSWER):
        while made.context is before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    running.cancel()
