"""Processes that say on which port they listen."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

ROUTER: Final = "from hetserve_router import start; start()"
WORKER: Final = "from hetserve_worker import start; start()"


@contextmanager
def listening(program: str, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process, and the first port that it says."""
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline()
            found = re.search(r"127\.0\.0\.1:(\d+)", said)
            assert found is not None, said + process.stderr.read()
            yield process, int(found[1])
        finally:
            process.kill()
