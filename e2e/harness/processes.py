"""Starts, recognises and stops processes, identified by pid and start time."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import limits

PROC: Final = Path("/proc")
POLL: Final = 0.02

# Kept to reap children without warnings.
_children: dict[int, subprocess.Popen[bytes]] = {}


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """`started`: unique among owners of the pid."""

    name: str
    pid: int
    started: str

    @classmethod
    def of(cls, name: str, pid: int) -> ProcessRecord | None:
        """None if no process has this pid."""
        started = start_mark(pid)
        return None if started is None else cls(name, pid, started)

    def alive(self) -> bool:
        runs = start_mark(self.pid) == self.started
        if not runs and (child := _children.get(self.pid)) is not None:
            child.poll()  # reaps
        return runs

    def frozen(self) -> bool:
        """Whether it is alive and stopped by a signal."""
        return self.alive() and _run_state(self.pid) == "T"

    def freeze(self) -> None:
        """SIGSTOP; returns once it stands still."""
        self._signal_until(signal.SIGSTOP, frozen=True)

    def thaw(self) -> None:
        """SIGCONT; returns once it runs."""
        self._signal_until(signal.SIGCONT, frozen=False)

    def _signal_until(self, number: signal.Signals, *, frozen: bool) -> None:
        if self.alive():
            os.kill(self.pid, number)
        deadline = time.monotonic() + limits.ANSWER
        while self.frozen() is not frozen:
            if time.monotonic() >= deadline or not self.alive():
                raise RuntimeError(f"{self.name} ({self.pid}) did not follow {number.name}")
            time.sleep(POLL)


def _fields(stat: str) -> list[str]:
    """Fields of /proc/PID/stat from the third on; the name before may hold blanks and parentheses."""
    return stat.rpartition(")")[2].split()


def _run_state(pid: int) -> str:
    """One letter as of ps: R, S, T (stopped), Z (ended, not reaped); empty: gone."""
    try:
        return _fields(PROC.joinpath(str(pid), "stat").read_text())[0]
    except (FileNotFoundError, ProcessLookupError):
        asked = subprocess.run(["/bin/ps", "-o", "stat=", "-p", str(pid)], check=False, capture_output=True, text=True)
        return asked.stdout.strip()[:1]


def _has_other_threads(fields: list[str]) -> bool:
    """Whether threads outlive the first one, as for a moment after SIGKILL: until they end, sockets stay open."""
    return int(fields[17]) > 1


def start_mark(pid: int) -> str | None:
    """Start of the process as text unique across reboots."""
    if not PROC.joinpath("self", "stat").exists():  # no Linux: ask ps
        asked = subprocess.run(
            ["/bin/ps", "-o", "lstart=,stat=", "-p", str(pid)], check=False, capture_output=True, text=True
        )
        said = asked.stdout.split()
        return None if len(said) < 2 or said[-1].startswith("Z") else " ".join(said[:-1])
    try:
        stat = PROC.joinpath(str(pid), "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = _fields(stat)
    if fields[0] in "ZX" and not _has_other_threads(fields):
        return None
    boot = PROC.joinpath("sys", "kernel", "random", "boot_id").read_text().strip()
    return f"{boot}/{fields[19]}"


def command_line(pid: int) -> str:
    """Blank-separated; empty if it is gone."""
    try:
        return PROC.joinpath(str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        asked = subprocess.run(
            ["/bin/ps", "-o", "command=", "-p", str(pid)], check=False, capture_output=True, text=True
        )
        return asked.stdout.strip()


def spawn(
    name: str,
    command: Sequence[str],
    log: Path,
    env: Mapping[str, str] | None = None,
    *,
    descriptors: int | None = None,
) -> ProcessRecord:
    """Starts a process in a session of its own (Ctrl-C), with output to `log`.

    `descriptors`: limit of open files. Raises RuntimeError if it ends at once.
    """
    if descriptors is not None:
        command = ["/bin/sh", "-c", 'ulimit -n "$0" && exec "$@"', str(descriptors), *command]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as sink:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            start_new_session=True,
        )
    _children[child.pid] = child
    record = ProcessRecord.of(name, child.pid)
    if record is None:
        raise RuntimeError(f"{name} ended at once with code {child.wait()}:\n{tail(log)}")
    return record


def end(records: Iterable[ProcessRecord], grace: float) -> list[str]:
    """SIGTERM, then SIGKILL after `grace` seconds; names of those killed. A frozen one is thawed to hear it."""
    running = [record for record in records if record.alive()]
    if grace > 0:
        for record in running:
            _signal(record, signal.SIGTERM)
            _signal(record, signal.SIGCONT)
        running = _still_alive(running, grace)
    for record in running:
        _signal(record, signal.SIGKILL)
    stuck = _still_alive(running, 10.0)
    if stuck:
        raise RuntimeError(f"processes survive SIGKILL: {', '.join(f'{r.name} ({r.pid})' for r in stuck)}")
    return [record.name for record in running]


def _still_alive(records: list[ProcessRecord], seconds: float) -> list[ProcessRecord]:
    deadline = time.monotonic() + seconds
    while (records := [record for record in records if record.alive()]) and time.monotonic() < deadline:
        time.sleep(POLL)
    return records


def _signal(record: ProcessRecord, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(record.pid, number)


def tail(log: Path, lines: int = 40) -> str:
    try:
        with log.open("rb") as source:
            source.seek(max(0, log.stat().st_size - 200 * lines))
            text = source.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
