"""What a query by gRPC costs the processor: ours beside a forwarder of grpc.aio that does nothing else."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.reporting import Json, table, verdict
from benchmarks.router.balancers import joined, router
from benchmarks.router.forward import INSTANCES, MODEL
from benchmarks.router.processes import Running, started
from benchmarks.router.setups import ROUTER, Addresses, Setup

from harness import peers

TITLE: Final = "Processor time of a query by gRPC"
SHARE: Final = 0.85
"""Of the forwarder's processor time."""
MOST: Final = 450.0
"""[us]"""
_PEERS: Final = str(Path(__file__).with_name("rpc_peers.py"))


class NoAnswerError(Exception):
    """No query was answered at all; the message says what the client heard."""


def measure(quick: bool) -> Json:
    rounds, seconds = (2, 1) if quick else (7, 3)
    try:
        python = str(peers.provide() / "python")
    except peers.PeersError as error:
        return {"missing": str(error)}
    figures: dict[str, list[float]] = {}
    failed = 0
    with tempfile.TemporaryDirectory(prefix="bench-router-") as name, ExitStack() as stack:
        folder, addresses = Path(name), Addresses()
        setup = Setup("router", MODEL, INSTANCES, addresses)
        places, front = [one.address for one in setup.instances], addresses.next()
        behind = [joined(place) for place in places]
        stack.enter_context(started(folder, "instances", [python, _PEERS, "instances", *behind])).await_answers(places)
        bare = stack.enter_context(started(folder, "forwarder", [python, _PEERS, "forward", joined(front), *behind]))
        asked = {"grpc.aio": (front, bare.await_answers([front]))}
        asked["router"] = ROUTER, stack.enter_context(router(folder, [setup]))
        for number in range(-1, rounds):
            print(f"  round {number + 1} of {rounds}", end="\r", flush=True)
            for who, (address, running) in asked.items():
                command = [python, _PEERS, "load", joined(address), setup.target.service, MODEL.label, str(seconds)]
                try:
                    cpu, refused = _round(command, running)
                except NoAnswerError as error:
                    return {"missing": f"{who}: {error}"}
                if number >= 0:
                    figures.setdefault(who, []).append(cpu)
                    failed += refused
    return {"rounds": rounds, "cpu": figures, "failed": failed}


def _round(command: list[str], running: Running) -> tuple[float, int]:
    """Processor time of a query [us], and how many failed. Raises NoAnswerError."""
    before = running.cpu
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    used = running.cpu - before
    answered, failed = map(int, done.stdout.split() or (0, 0))
    if not answered:
        raise NoAnswerError(f"no query was answered: {done.stderr[-1000:].strip()}")
    return used / answered * 1e6, failed


def describe(data: Json) -> str:
    if "missing" in data:
        return f"Not measured: {data['missing']}\n"
    medians = {who: statistics.median(taken) for who, taken in data["cpu"].items()}
    ratio = medians["router"] / medians["grpc.aio"]
    goal = f"<= {SHARE:g}: {verdict(ratio <= SHARE)}; <= {MOST:g} us: {verdict(medians['router'] <= MOST)}"
    rows = [
        (
            {"router": "ours", "grpc.aio": "a bare forwarder of grpc.aio"}[who],
            f"{medians[who]:.0f} [{min(taken):.0f}-{max(taken):.0f}]",
            f"{medians[who] / medians['grpc.aio']:.2f}",
            goal if who == "router" else "",
        )
        for who, taken in data["cpu"].items()
    ]
    return (
        f"584-byte queries, 32 on their way on one connection; 14 instances answer at once, each asked one query at a "
        f"time. {data['rounds']} rounds in turn. {data['failed']} queries failed.\n\n"
        + table(("proxy", "us a query, median [range]", "of the forwarder's", "goal"), rows)
    )
