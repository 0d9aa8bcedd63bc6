"""Stops a cluster whose owner died without stopping it.

`python -m harness.reaper STATE` waits for the end of its standard input, which the owner holds open, then stops and
removes the cluster in STATE.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from harness import limits
from harness.state import StateFolder


def watch(folder: Path) -> subprocess.Popen[bytes]:
    """Starts a reaper, which acts when this process ends or closes the pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", "harness.reaper", str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])},
        start_new_session=True,
    )


def dismiss(reaper: subprocess.Popen[bytes]) -> None:
    if reaper.stdin is not None:
        reaper.stdin.close()
    reaper.wait(timeout=limits.REACTION)


def main(folder: str) -> int:
    sys.stdin.buffer.read()
    StateFolder(Path(folder)).destroy()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
