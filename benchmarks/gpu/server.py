"""A process that serves one model on the GPU in a closed loop: the next query when the last is answered."""

from __future__ import annotations

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final

import torch
from benchmarks.gpu.tenants import HALF, TENANTS

TRIES: Final = 5
"""Queries of each batch before any is measured: libraries choose their kernels by them."""


@dataclass(frozen=True)
class Loop:
    """Queries of one batch; those that begin before `counts` are left out. Times are monotonic seconds."""

    batch: int
    begins: float
    counts: float
    ends: float


def serve(name: str, connection: Connection) -> None:
    """Answers each Loop with (monotonic second at which a query ended, its seconds), until None comes.

    Once it is ready, it says how many MiB of the GPU's memory PyTorch holds for it.
    """
    torch.set_num_threads(1)
    with torch.inference_mode():
        captured = _load(name)
        connection.send(torch.cuda.memory_reserved() / 2**20)
        while (loop := connection.recv()) is not None:
            connection.send(_play(captured[loop.batch], loop))


class Captured:
    """The kernels of one batch, captured once and launched together, as servers in production do.

    Launched one by one, small kernels wait for the processor, and not for each other.
    """

    def __init__(self, model: Any, query: tuple[Any, ...]) -> None:
        self._query = tuple(one.pin_memory() for one in query)
        self._inputs = tuple(one.to("cuda") for one in query)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(TRIES):
                model(*self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._output = model(*self._inputs)
        for _ in range(TRIES):
            self.answer()

    def answer(self) -> Any:
        """From inputs in the host's memory to an answer there."""
        for there, here in zip(self._inputs, self._query, strict=True):
            there.copy_(here, non_blocking=True)
        self._graph.replay()
        return self._output.cpu()


def _load(name: str) -> dict[int, Captured]:
    tenant = TENANTS[name]
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = tenant.make()
    model = model.to(HALF).eval()
    return {batch: Captured(model, tenant.query(batch)) for batch in tenant.batches}


def _play(captured: Captured, loop: Loop) -> list[tuple[float, float]]:
    found = []
    # All servers of a run begin at one moment: a query of one that began sooner would have met no neighbour.
    time.sleep(max(0.0, loop.begins - time.monotonic()))
    began = time.monotonic()
    while began < loop.ends:
        captured.answer()
        ended = time.monotonic()
        if began >= loop.counts:
            found.append((ended, ended - began))
        began = ended
    return found
