"""What the router is tested and measured beside, from `peers.lock`: Envoy, and clients of the Open Inference Protocol.

They lie in a virtual environment of their own in the user's cache, made once for each lock: the project depends on none
of them. `python -m harness.peers` makes it and prints where it is.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.pins import cache_folder

LOCK: Final = Path(__file__).parents[2] / "peers.lock"
INSTALL: Final = ("install", "--quiet", "--require-hashes", "--requirement", str(LOCK))


class PeersError(Exception):
    """The environment cannot be made; what the installer said is in the message."""


def provide() -> Path:
    """Folder with the peers' programs, such as `python` and `envoy`; a first call installs them (265 MB, seconds).

    Raises:
        PeersError: The installer failed.
    """
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    key = hashlib.sha256(LOCK.read_bytes() + version.encode()).hexdigest()[:12]
    folder = cache_folder().parent / "peers" / key
    complete = folder / ".complete"
    with _alone(folder):
        if not complete.exists():
            venv.create(folder, clear=True, with_pip=True)
            _install(folder / "bin")
            complete.touch()
    return folder / "bin"


def _install(bin_: Path) -> None:
    """With uv, which reads no configuration of pip; where it reaches no index, with pip."""
    uv = Path(sys.executable).parent / "uv"
    found = str(uv) if uv.exists() else shutil.which("uv")
    tries = [[found, "pip", *INSTALL, "--python", str(bin_ / "python")]] if found else []
    for command in [*tries, [str(bin_ / "pip"), *INSTALL, "--disable-pip-version-check"]]:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode == 0:
            return
    raise PeersError(f"peers.lock cannot be installed into {bin_.parent}: {done.stderr[-2000:]}")


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process at a time makes it; the lock ends with the process."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    try:
        print(provide())
    except PeersError as error:
        sys.exit(f"peers: {error}")
