"""Allocates distinct free ports, below the kernel's range for outgoing connections."""

from __future__ import annotations

import fcntl
import os
import socket
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TextIO

FIRST: Final = 20_000
LAST: Final = 31_000
BLOCK: Final = 20


@dataclass(frozen=True, slots=True)
class Ports:
    """Of one cluster, on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    apiserver: int
    controller_manager: int
    default_scheduler: int
    kwok: int
    extender: int
    extender_probe: int
    operator_probe: int
    scheduler: int
    standby_probe: int = 0  # old state files lack these
    operator_standby_probe: int = 0
    prometheus: int = 0
    twin: int = 0
    scheduler_standby: int = 0
    extender_standby: int = 0
    router: int = 0
    router_probe: int = 0
    router_standby: int = 0
    router_standby_probe: int = 0

    @classmethod
    def block_from(cls, first: int) -> Ports:
        """In the order of the fields."""
        return cls(*(first + offset for offset in range(len(cls.__dataclass_fields__))))

    def all(self) -> tuple[int, ...]:
        return tuple(asdict(self).values())


class PortBlock:
    """A claim on a block by a file lock; the bound ports protect the demo."""

    def __init__(self, ports: Ports, lock: TextIO) -> None:
        self.ports = ports
        self._lock = lock

    @classmethod
    def claim(cls, folder: Path | None = None) -> PortBlock:
        """The first free block. Raises OSError."""
        where = folder or Path(tempfile.gettempdir()) / f"hetserve-ports-{os.getuid()}"
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        for first in range(FIRST, LAST, BLOCK):
            lock = (where / str(first)).open("w")
            ports = Ports.block_from(first)
            if _locked(lock) and all(_is_free(port) for port in ports.all()):
                return cls(ports, lock)
            lock.close()
        raise OSError(f"no {BLOCK} free ports in a row between {FIRST} and {LAST} on 127.0.0.1")

    def release(self) -> None:
        self._lock.close()


def _locked(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: TIME_WAIT is free for them.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
