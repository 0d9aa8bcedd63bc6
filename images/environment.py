"""Fills the virtual environment of a component's image. Runs in the build stage: the standard library only.

`python -m images.environment STEP COMPONENT FOLDER`: `requirements` installs what is locked, `own` adds hetserve's
wheel and all that is compiled of it. The same inputs make the same files: no time of the build, no order of a disk.
"""

from __future__ import annotations

import compileall
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

from images.lock import ROOT, Pin, of_component, of_the_build

KERNELS: Final = "kernels"
"""Folder of compiled kernels in an environment; NUMBA_CACHE_DIR of the images names it."""
WHEELS: Final = Path("/dist")
"""Where the build stage keeps hetserve's own wheel."""

_WITHOUT_TESTS: Final = ("numba", "numpy", "scipy", "sklearn")
_CLIENTS: Final = ("kubernetes/client", "kubernetes/aio/client")
_ADDRESS: Final = re.compile(rb"(<function [\w.]+ at 0x)([0-9a-f]+)")
_SOLVERS: Final = {"x86_64": "i64", "aarch64": "arm64"}
"""Folder of PuLP's own CBC by machine."""


def make_wheel(into: Path) -> None:
    """Builds hetserve's wheel with the locked build system, in an environment that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        builder = Path(folder) / "builder"
        venv.create(builder, symlinks=True)
        _install(of_the_build(), builder)
        command = [str(builder / "bin" / "python"), "-m", "hatchling", "build", "-t", "wheel", "-d", str(into)]
        subprocess.run(command, cwd=ROOT, check=True)


def add_requirements(component: str, environment: Path) -> None:
    """Makes an environment with the locked requirements of a component, less what it cannot import."""
    venv.create(environment, symlinks=True)
    _install(of_component(component), environment)
    trim(site_packages(environment), platform.machine())


def add_own(_: str, environment: Path) -> None:
    """Adds hetserve's wheel, checks that all it needs is there, and compiles modules and missing kernels.

    Raises CalledProcessError where a requirement is missing or a kernel does not compile.
    """
    (wheel,) = WHEELS.glob("hetserve-*.whl")
    _pip(environment, "install", "--no-deps", "--no-index", "--no-compile", str(wheel))
    _pip(environment, "check")
    # Byte code without the times of its sources.
    compileall.compile_dir(
        site_packages(environment), quiet=2, maxlevels=30, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
    )
    if (site_packages(environment) / "numba").exists() and not (environment / KERNELS).exists():
        _compile_kernels(environment)
    settle(environment, int(os.environ["SOURCE_DATE_EPOCH"]))


def _install(pins: list[Pin], environment: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text("\n".join(pin.text for pin in pins) + "\n", encoding="utf-8")
        _pip(
            environment, "install", "--no-deps", "--no-compile", "--require-hashes", "--requirement", str(requirements)
        )


def _pip(environment: Path, *arguments: str) -> None:
    python = environment / "bin" / "python"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), *arguments]
    subprocess.run(command, check=True)


def site_packages(environment: Path) -> Path:
    """Where the distributions of an environment are."""
    (found,) = (environment / "lib").glob("python3.*/site-packages")
    return found


def trim(site: Path, machine: str) -> None:
    """Removes what no component can import: tests, the generated API of Kubernetes, solvers of other platforms.

    site: the folder of distributions. machine: that of the image, as `uname -m` says it. The components speak plain
    JSON with the API server: of its client they use the connection and its configuration.
    """
    for package in _WITHOUT_TESTS:
        for tests in sorted((site / package).rglob("tests")):
            shutil.rmtree(tests, ignore_errors=True)
    for client in _CLIENTS:
        for file in sorted((site / client).glob("api/*.py")) + sorted((site / client).glob("models/*.py")):
            if file.name != "__init__.py":
                file.unlink()
    for solver in sorted((site / "pulp/solverdir/cbc").glob("*/*")):
        if solver.is_dir() and (solver.parent.name, solver.name) != ("linux", _SOLVERS.get(machine)):
            shutil.rmtree(solver)


def _compile_kernels(environment: Path) -> None:
    folder = environment / KERNELS
    folder.mkdir()
    own = {**os.environ, "NUMBA_CACHE_DIR": str(folder), "PYTHONHASHSEED": "0"}
    subprocess.run([environment / "bin" / "python", ROOT / "images" / "kernels.py"], check=True, env=own)
    for file in folder.rglob("*.nbc"):
        file.write_bytes(without_addresses(file.read_bytes()))


def without_addresses(kernel: bytes) -> bytes:
    """A cached kernel without the addresses of functions in its notes, which differ in each run; as long as before."""
    return _ADDRESS.sub(lambda found: found[1] + b"0" * len(found[2]), kernel)


def settle(environment: Path, epoch: int) -> None:
    """Gives every file of an environment one time. epoch: seconds since 1970."""
    for path in [environment, *environment.rglob("*")]:
        os.utime(path, (epoch, epoch), follow_symlinks=False)


STEPS: Final[dict[str, Callable[[str, Path], None]]] = {
    "wheel": lambda _, folder: make_wheel(folder),
    "requirements": add_requirements,
    "own": add_own,
}

if __name__ == "__main__":
    STEPS[sys.argv[1]](sys.argv[2], Path(sys.argv[3]))
