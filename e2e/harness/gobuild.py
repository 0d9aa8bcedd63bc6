"""Builds one pinned module into the cache: once, atomically, with progress."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from harness.pins import Module, cache_key, linker_flags, version_of

NEEDED_GO: Final = (1, 26)
HOW_TO_GET_GO: Final = (
    "install Go 1.26 or newer (https://go.dev/dl) and put it on PATH, or set HETSERVE_TOOLS_DIR to a folder that "
    "holds kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, etcd, kwok, kwokctl, helm, prometheus and "
    "promtool"
)
REPORT_EVERY: Final = 10.0


class ToolError(RuntimeError):
    """A binary is missing and cannot be built; says what to install or to set."""


@dataclass(frozen=True, slots=True)
class Compiler:
    """Go: its program, version (``go1.26.8``) and platform (``linux/amd64``)."""

    program: str
    version: str
    platform: str

    @classmethod
    def found(cls) -> Compiler:
        """The Go on PATH; raises ToolError."""
        program = shutil.which("go")
        if program is None:
            raise ToolError(f"the control plane must be built and there is no Go on PATH: {HOW_TO_GET_GO}")
        asked = subprocess.run(
            [program, "env", "GOVERSION", "GOOS", "GOARCH"],
            check=True,
            capture_output=True,
            text=True,
            cwd="/",
            env=_environment(),
        )
        version, system, machine = asked.stdout.split()
        numbers = re.match(r"go(\d+)\.(\d+)", version)
        if numbers is None or (int(numbers[1]), int(numbers[2])) < NEEDED_GO:
            raise ToolError(f"{program} is {version}, too old to build the control plane: {HOW_TO_GET_GO}")
        return cls(program, version, f"{system}/{machine}")


def _environment() -> dict[str, str]:
    """Static binaries, go.mod and go.sum as committed, no other toolchain.

    GOGC, GOMEMLIMIT: the compiler collects garbage from 2 GiB on: KWOK is built in 91 s, in 99 s with GOGC=400.
    """
    fixed = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    return {"GOGC": "off", "GOMEMLIMIT": "2GiB", **os.environ, **fixed}


def built(module: Module, cache: Path, compiler: Compiler) -> Path | None:
    """Folder of the module's binaries, None if not built."""
    folder = cache / cache_key(module, compiler.version, compiler.platform)
    return folder if all((folder / binary.name).is_file() for binary in module.binaries) else None


def build(module: Module, cache: Path, compiler: Compiler, *, heading: str, out: TextIO = sys.stderr) -> Path:
    """Builds a module unless another process did; returns the folder.

    `heading`: prefix of progress lines. Raises ToolError with the end of the output; the log stays beside the cache
    folder.
    """
    key = cache_key(module, compiler.version, compiler.platform)
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"{key}.lock", heading, out):
        if (ready := built(module, cache, compiler)) is not None:
            return ready
        scratch, log = cache / f"{key}.building", cache / f"{key}.log"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        try:
            _compile(module, compiler, scratch, log, heading=heading, out=out)
            for binary in module.binaries:
                (scratch / binary.go_name).rename(scratch / binary.name)
            shutil.rmtree(cache / key, ignore_errors=True)
            scratch.rename(cache / key)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        log.unlink()
        return cache / key


def _compile(module: Module, compiler: Compiler, into: Path, log: Path, *, heading: str, out: TextIO) -> None:
    version = version_of(module)
    names = ", ".join(binary.name for binary in module.binaries)
    expected = expected_seconds(module)
    print(f"{heading} building {names} {version} (about {_spoken(expected)} when cold)", file=out, flush=True)
    flags = ["-trimpath", "-buildvcs=false", "-ldflags", linker_flags(module, version)]
    if module.tags:
        flags += ["-tags", ",".join(module.tags)]
    with log.open("w") as sink:
        process = subprocess.Popen(
            [compiler.program, "build", *flags, "-o", f"{into}{os.sep}", "tool"],
            cwd=module.folder,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
        )
        try:
            elapsed = _watched(process, f"{heading} {module.name}", expected, out)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise ToolError(f"building {module.name} {version} failed (whole log: {log}):\n{tail}")
    print(f"{heading} built {module.name} in {elapsed:.0f} s", file=out, flush=True)


def _watched(process: subprocess.Popen[bytes], heading: str, expected: float, out: TextIO) -> float:
    """Waits for a build; seconds it took."""
    started = said = time.monotonic()
    live = out.isatty()
    while True:
        try:
            process.wait(timeout=1.0)
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            if live or now - said >= REPORT_EVERY:
                said = now
                text = f"{heading}: {now - started:.0f} s of about {expected:.0f} s"
                print(f"\r\033[K{text}" if live else text, end="" if live else "\n", file=out, flush=True)
        else:
            if live:
                print("\r\033[K", end="", file=out, flush=True)
            return time.monotonic() - started


def expected_seconds(module: Module) -> float:
    """Of a cold build."""
    return module.cold_seconds * max(1.0, 4 / (os.cpu_count() or 1))


def _spoken(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


@contextmanager
def _locked(path: Path, heading: str, out: TextIO) -> Iterator[None]:
    """A file lock, which ends with the process."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{heading} another process builds this already, waiting for it", file=out, flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
