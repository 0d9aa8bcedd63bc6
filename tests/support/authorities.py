"""Certificate authorities of tests, by the openssl command."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SERVER: Final = "hetserve-extender.hetserve-system.svc"
CLIENT: Final = "hetserve-scheduler"
PAST: Final = ("20200101000000Z", "20200201000000Z")


@dataclass(frozen=True)
class Leaf:
    """A certificate and its key."""

    certificate: Path
    key: Path

    @property
    def pem(self) -> str:
        return self.certificate.read_text()

    def client(self, authority: Path) -> ssl.SSLContext:
        """What a client with this certificate, which trusts an authority, connects with."""
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(self.certificate, self.key)
        return context


class Authority:
    """A certificate authority in a folder of its own; when: from and until, as YYYYMMDDHHMMSSZ."""

    def __init__(self, folder: Path, name: str, *, when: tuple[str, str] | None = None) -> None:
        self.folder, self.name = folder / name, name
        self.folder.mkdir(parents=True)
        self.certificate, self.key = self.folder / "ca.crt", self.folder / "ca.key"
        self._key(self.key)
        if when:
            self._sign_itself(when)
            return
        given = ("-key", self.key, "-subj", f"/CN={name}", "-days", "30", "-addext", "keyUsage=critical,keyCertSign")
        _openssl("req", "-x509", "-new", *given, "-out", self.certificate)

    @property
    def pem(self) -> str:
        return self.certificate.read_text()

    def leaf(
        self,
        name: str,
        *,
        use: str = "clientAuth",
        when: tuple[str, str] | None = None,
        days: int = 7,
    ) -> Leaf:
        """Issues a certificate; use: extended key usage. when: from and until, as YYYYMMDDHHMMSSZ."""
        number = len(list(self.folder.glob("*.csr")))
        stem = self.folder / f"{number}"
        key, request, certificate = (stem.with_suffix(f".{kind}") for kind in ("key", "csr", "crt"))
        self._key(key)
        _openssl("req", "-new", "-key", key, "-subj", f"/CN={name}", "-out", request)
        extensions = stem.with_suffix(".ext")
        extensions.write_text(f"extendedKeyUsage={use}\nauthorityKeyIdentifier=keyid\nsubjectAltName=DNS:{name}\n")
        if when:
            self._in_time(request, certificate, extensions, when)
        else:
            signed = ("-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial", "-extfile", extensions)
            _openssl("x509", "-req", "-in", request, *signed, "-days", days, "-out", certificate)
        return Leaf(certificate, key)

    def server(self, name: str = SERVER, **given: object) -> Leaf:
        return self.leaf(name, use="serverAuth", **given)  # type: ignore[arg-type]

    def _sign_itself(self, when: tuple[str, str]) -> None:
        request, extensions = self.folder / "ca.req", self.folder / "ca.ext"
        _openssl("req", "-new", "-key", self.key, "-subj", f"/CN={self.name}", "-out", request)
        extensions.write_text(
            "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n"
        )
        self._in_time(request, self.certificate, extensions, when, by=("-selfsign",))

    def _in_time(
        self, request: Path, certificate: Path, extensions: Path, when: tuple[str, str], by: tuple[object, ...] = ()
    ) -> None:
        """`openssl x509` cannot issue for another time than now."""
        (self.folder / "index.txt").write_text("")
        (self.folder / "serial").write_text("1000")
        config = self.folder / "ca.cnf"
        config.write_text(
            f"[ca]\ndefault_ca=it\n[it]\ndatabase={self.folder}/index.txt\nserial={self.folder}/serial\n"
            f"new_certs_dir={self.folder}\ndefault_md=sha256\npolicy=any\n[any]\ncommonName=supplied\n"
        )
        by = by or ("-cert", self.certificate)
        signed = (*by, "-keyfile", self.key, "-extfile", extensions, "-batch", "-notext")
        begin, end = when
        _openssl(
            *("ca", "-config", config, "-in", request, "-out", certificate, *signed),
            *("-startdate", begin, "-enddate", end),
        )

    @staticmethod
    def _key(path: Path) -> None:
        _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path)


def put(folder: Path, leaf: Leaf, *authorities: Authority) -> Path:
    """Writes tls.crt, tls.key and ca.crt of a Secret into a folder, as the kubelet mounts it; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in secret(leaf, *authorities).items():
        new = folder / f".{name}"
        new.write_text(text)
        new.replace(folder / name)
    return folder


def secret(leaf: Leaf, *authorities: Authority) -> dict[str, str]:
    """Data of a Secret."""
    bundle = "".join(authority.pem for authority in authorities)
    return {"tls.crt": leaf.pem, "tls.key": leaf.key.read_text(), "ca.crt": bundle}


def _openssl(*arguments: object) -> None:
    command = [shutil.which("openssl") or "openssl", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not done.returncode, f"{' '.join(command)}: {done.stderr}"
