"""Bases of the images from Debian packages, where no image registry is reached."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

from images.engines import Engine, EngineError

SUITE: Final = "bookworm"
"""Its Python is 3.11, that of the tests."""
_RUNTIME: Final = ("python3", "libpython3.11-stdlib", "libstdc++6", "ca-certificates")
PACKAGES: Final = {"base": _RUNTIME, "build-base": (*_RUNTIME, "python3-pip", "python3-venv")}
"""By the role of the base: what the images stand on, and what fills them."""
_EPOCH: Final = 1_577_836_800
_LEFT_OUT: Final = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")
_KEPT: Final = ("/usr/share/doc/*/copyright",)


def provide(engine: Engine, role: str) -> str:
    """Tag of a base; makes it if the engine has none. role: in PACKAGES.

    Raises EngineError where mmdebstrap is missing or a mirror has not what is asked for.
    """
    mirrors = _mirrors()
    key = hashlib.sha256(repr((SUITE, PACKAGES[role], mirrors)).encode()).hexdigest()[:12]
    tag = f"localhost/hetserve/debian-{role}:{key}"
    if engine.has(tag):
        return tag
    if shutil.which("mmdebstrap") is None:
        raise EngineError("BASE=debian needs mmdebstrap: apt-get install mmdebstrap debian-archive-keyring")
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        _root_file_system(PACKAGES[role], mirrors, context / "root.tar")
        (context / "Containerfile").write_text("FROM scratch\nADD root.tar /\n", encoding="utf-8")
        engine.build(context / "Containerfile", context, tag, {}, epoch=_EPOCH)
    return tag


@cache
def _mirrors() -> tuple[str, ...]:
    """Lines for apt, of the mirror that this machine uses. Raises EngineError where it names none."""
    asked = ["apt-get", "indextargets", "--format", "$(SITE)"]
    sites = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    of_debian = [site.rstrip("/") for site in sites if site.rstrip("/").endswith("/debian")]
    if not of_debian:
        raise EngineError("BASE=debian: apt of this machine names no Debian mirror (apt-get indextargets)")
    root = of_debian[0].removesuffix("/debian")
    return (
        f"deb {root}/debian {SUITE} main",
        f"deb {root}/debian {SUITE}-updates main",
        f"deb {root}/debian-security {SUITE}-security main",
    )


def _root_file_system(packages: tuple[str, ...], mirrors: tuple[str, ...], archive: Path) -> None:
    command = ["mmdebstrap", "--quiet", "--format=tar", "--variant=essential", "--mode=root"]
    command += [f"--include={','.join(packages)}", '--aptopt=APT::Install-Recommends "false"']
    command += ['--aptopt=Acquire::Check-Valid-Until "false"']
    command += [f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT]
    command += [f"--dpkgopt=path-include={path}" for path in _KEPT]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(_EPOCH)}
    done = subprocess.run([*command, SUITE, str(archive), *mirrors], env=environment, check=False)
    if done.returncode:
        raise EngineError(f"mmdebstrap failed with {done.returncode}: what it printed says why")
