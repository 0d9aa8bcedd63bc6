"""The real command ``hetserve``, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from harness import limits

HETSERVE: Final = Path(sys.executable).parent / "hetserve"


def hetserve(*arguments: str, code: int = 0, account: Path | None = None) -> str:
    """What it prints; both outputs where it fails. code: its exit code. account: a kubeconfig."""
    command = [str(HETSERVE), *arguments, *(("--kubeconfig", str(account)) if account else ())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limits.COMMAND)
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout if code == 0 else done.stdout + done.stderr
