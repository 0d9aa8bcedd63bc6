"""The locked wheels, fetched on this machine into build/wheels: the build then needs no network."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from packaging.markers import default_environment
from packaging.requirements import Requirement

from images.lock import OF_COMPONENTS, PYTHON, ROOT, Pin, of_component, of_the_build

_NEWEST_GLIBC: Final = 36
"""Minor version of Debian 12's: wheels for it or an older one run."""


def for_image(pins: Iterable[Pin], machine: str) -> list[Pin]:
    """The pins that an image for Linux installs, by their markers. machine: as `uname -m` says it."""
    environment = {
        **{name: str(value) for name, value in default_environment().items()},
        "python_version": PYTHON,
        "python_full_version": f"{PYTHON}.0",
        "sys_platform": "linux",
        "os_name": "posix",
        "platform_system": "Linux",
        "platform_machine": machine,
        "platform_python_implementation": "CPython",
    }

    def applies(pin: Pin) -> bool:
        marker = Requirement(pin.text.partition("\\")[0]).marker
        return marker is None or marker.evaluate(environment)

    return [pin for pin in pins if applies(pin)]


def fetch(machine: str, into: Path = ROOT / "build" / "wheels") -> None:
    """Fetches the wheels of all components, unless they are there. Raises CalledProcessError where pip cannot."""
    pins = {pin.text: pin for component in OF_COMPONENTS for pin in of_component(component)}
    pins |= {pin.text: pin for pin in of_the_build()}
    requirements = "\n".join(pin.text for pin in for_image(pins.values(), machine)) + "\n"
    into.mkdir(parents=True, exist_ok=True)
    done = into / ".fetched"
    digest = hashlib.sha256(f"{machine} {requirements}".encode()).hexdigest()
    if done.exists() and done.read_text(encoding="utf-8") == digest:
        return
    listed = into / "requirements.txt"
    listed.write_text(requirements, encoding="utf-8")
    platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in range(5, _NEWEST_GLIBC + 1)]
    platforms += [f"--platform=manylinux{name}_{machine}" for name in ("1", "2010", "2014")]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += [
        "--only-binary=:all:",
        "--require-hashes",
        f"--python-version={PYTHON}",
        "--implementation=cp",
        *platforms,
    ]
    subprocess.run([*command, f"--requirement={listed}", f"--dest={into}"], check=True)
    done.write_text(digest, encoding="utf-8")
