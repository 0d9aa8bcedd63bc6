"""Measures how models share the GPU of this machine: `python3 -m benchmarks.gpu.measure --instance TYPE --out FOLDER`.

Needs PyTorch and a GPU that nobody else uses, and nothing of hetserve. Writes runs-MODE.csv, the input of `hetserve
profile fit`; sets-MODE.json, what sets of three and four did; and machine.json. The daemon of MPS, where it is
installed, is begun and ended for its part; no setting of the GPU is changed.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from benchmarks.gpu.plan import COPIES, Member, Run, runs
from benchmarks.gpu.server import Loop, serve
from benchmarks.gpu.tenants import TENANTS

SETTLE: Final = 0.25
"""Seconds of a run that are not measured."""
KEPT: Final = 100
"""Queries of a server that are kept of a run, evenly spread over it."""
FACTS: Final = "name,uuid,memory.total,driver_version,compute_mode,mig.mode.current,power.limit,clocks.max.sm"
COLUMNS: Final = ("model", "instance", "batch", "copies", "neighbour", "neighbour_batch", "latency_ms")
Query = tuple[float, float]


class Servers:
    """Every server that a run may need, loaded and idle."""

    def __init__(self) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._all: dict[tuple[str, int], tuple[Any, Connection]] = {}
        for name in TENANTS:
            for copy in range(COPIES):
                ours, theirs = spawn.Pipe()
                process = spawn.Process(target=serve, args=(name, theirs), daemon=True)
                process.start()
                self._all[name, copy] = process, ours
        self.taken = {name: self._hear(name, 0) for name in TENANTS}
        for name in TENANTS:
            for copy in range(1, COPIES):
                self._hear(name, copy)

    def _hear(self, name: str, copy: int) -> Any:
        process, connection = self._all[name, copy]
        while not connection.poll(1.0):
            if not process.is_alive():
                raise SystemExit(f"the server of {name} ended with {process.exitcode}")
        return connection.recv()

    def play(self, run: Run, seconds: float) -> list[list[Query]]:
        """Queries of each member, in the run's order."""
        begins = time.monotonic() + 0.02
        copies = Counter[str]()
        busy = []
        for name, batch in run:
            key = name, copies[name]
            copies[name] += 1
            self._all[key][1].send(Loop(batch, begins, begins + SETTLE, begins + seconds))
            busy.append(key)
        return [self._hear(*key) for key in busy]

    def end(self) -> None:
        for process, connection in self._all.values():
            connection.send(None)
            process.join(10)


def _lines(run: Run, found: list[list[Query]], instance: str) -> Iterator[tuple[Any, ...]]:
    """Lines of runs.csv of one, of copies, or of a pair: each member's, in the order in which they ended."""
    merged = [
        (ended, seconds, member) for member, queries in zip(run, found, strict=True) for ended, seconds in queries
    ]
    copies = len(run) if len(set(run)) == 1 else 1
    for _, seconds, (name, batch) in sorted(merged):
        other: tuple[Any, Any] = ("", "")
        if len(run) == 2 and copies == 1:
            other = run[1] if run[0] == (name, batch) else run[0]
        yield name, instance, batch, copies, *other, f"{1000 * seconds:.4f}"


def _spread(queries: list[Query]) -> list[Query]:
    """Some of them, evenly over the run."""
    if len(queries) <= KEPT:
        return queries
    return [queries[round(index * (len(queries) - 1) / (KEPT - 1))] for index in range(KEPT)]


def measure(mode: str, instance: str, seconds: float, out: Path) -> dict[str, float]:
    """Plays every run; returns MiB that PyTorch holds by model."""
    batches = {name: tenant.batches for name, tenant in TENANTS.items()}
    servers = Servers()
    planned, sets = runs(batches), []
    with (out / f"runs-{mode}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number, run in enumerate(planned):
            found = servers.play(run, seconds)
            fewest = min(map(len, found))
            if number % 10 == 0 or fewest < 20:
                print(f"{mode} {number + 1}/{len(planned)} {run}: {fewest} queries at least", flush=True)
            if len(set(run)) > 2:
                sets.append({"members": [_member(*pair) for pair in zip(run, found, strict=True)]})
            else:
                writer.writerows(_lines(run, [_spread(queries) for queries in found], instance))
    (out / f"sets-{mode}.json").write_text(json.dumps({"instance": instance, "sets": sets}, indent=1) + "\n")
    taken = servers.taken
    servers.end()
    return taken


def _member(member: Member, queries: list[Query]) -> dict[str, Any]:
    seconds = [1000 * one for _, one in queries]
    mean = statistics.fmean(seconds) if seconds else None
    return {"model": member[0], "batch": member[1], "queries": len(seconds), "mean_ms": mean}


@contextlib.contextmanager
def mps() -> Iterator[bool]:
    """The daemon of MPS during the block, for this process and those that it starts; False: there is none."""
    program = shutil.which("nvidia-cuda-mps-control")
    folder = f"/tmp/mps-{os.getpid()}"  # noqa: S108
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    given = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    if program is None or subprocess.run([program, "-d"], env=os.environ | given, check=False).returncode:
        yield False
        return
    os.environ.update(given)
    try:
        yield True
    finally:
        log = Path(folder, "server.log")
        print(log.read_text()[-600:] if log.exists() else "no server of MPS was begun")
        subprocess.run([program], input="quit\n", text=True, env=os.environ | given, check=False)
        for name in given:
            os.environ.pop(name)


def main() -> None:
    """Measures without MPS, and with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--instance", required=True, help="instance type that the results are of")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a run (default: %(default)s)")
    parser.add_argument("--modes", default="TimeSlicing,MPS", help="default: %(default)s")
    given = parser.parse_args()
    asked = ("nvidia-smi", f"--query-gpu={FACTS}", "--format=csv,noheader")
    facts = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    machine: dict[str, Any] = {
        "seconds": given.seconds,
        "gpu": dict(zip(FACTS.split(","), facts.split(", "), strict=False)),
        "taken_mib": {},
    }
    given.out.mkdir(parents=True, exist_ok=True)
    for mode in given.modes.split(","):
        began = time.monotonic()
        with mps() if mode == "MPS" else contextlib.nullcontext(True) as there:
            if not there:
                print("MPS: its daemon does not start here; left out")
                continue
            machine["taken_mib"][mode] = measure(mode, given.instance, given.seconds, given.out)
        print(f"{mode}: {time.monotonic() - began:.0f} s", flush=True)
        (given.out / "machine.json").write_text(json.dumps(machine, indent=1) + "\n")


if __name__ == "__main__":
    main()
