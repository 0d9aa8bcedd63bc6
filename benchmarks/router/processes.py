"""Processes of a measurement: started, awaited until they answer, ended; and what they take of the machine."""

from __future__ import annotations

import shutil
import socket
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from benchmarks.http.__main__ import processor_time
from benchmarks.router.player import Address

from harness.processes import ProcessRecord, end, spawn, tail

START: Final = 120.0
GRACE: Final = 3.0
PACKAGES: Final = {"nginx": "nginx", "haproxy": "haproxy", "wrk": "wrk"}
"""Programs that the distribution has, and in which package."""


class ProgramMissingError(Exception):
    """A program that is measured beside is not here; the message says how to get it."""


def program(name: str) -> str:
    """Path of one of PACKAGES. Raises ProgramMissingError."""
    found = shutil.which(name, path="/usr/local/sbin:/usr/sbin:/usr/local/bin:/usr/bin:/bin")
    if found is None:
        raise ProgramMissingError(f"{name}: install the package {PACKAGES[name]} of the distribution")
    return found


def ours(name: str) -> str:
    """Path of a console script of the project."""
    return str(Path(sys.executable).parent / name)


@dataclass(frozen=True, slots=True)
class Running:
    """A process that was started."""

    record: ProcessRecord
    log: Path

    @property
    def cpu(self) -> float:
        """Processor time of it and its children so far, user and system [s]."""
        return processor_time(self.record.pid)

    @property
    def resident(self) -> float:
        """Memory [MiB]."""
        lines = Path(f"/proc/{self.record.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024

    def await_answers(self, addresses: Iterable[Address]) -> Self:
        """Returns once somebody answers at all addresses. Raises RuntimeError, with the log, if nobody does."""
        limit = time.monotonic() + START
        for address in addresses:
            while not _answers(address):
                if not self.record.alive() or time.monotonic() > limit:
                    name = self.record.name
                    raise RuntimeError(f"{name} does not answer on {address[0]}:{address[1]}:\n{tail(self.log)}")
                time.sleep(0.05)
        return self


@contextmanager
def started(folder: Path, name: str, command: Sequence[str]) -> Iterator[Running]:
    """A process during the block."""
    log = folder / f"{name}.log"
    record = spawn(name, command, log)
    try:
        yield Running(record, log)
    finally:
        end([record], GRACE)


def _answers(address: Address) -> bool:
    with suppress(OSError), socket.create_connection(address, timeout=1.0):
        return True
    return False
