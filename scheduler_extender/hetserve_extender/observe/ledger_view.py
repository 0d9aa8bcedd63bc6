"""The ledger as JSON: every GPU with its pods, and problems.

Shows one moment: inventories and bookings are immutable, so references are the snapshot (0.2 ms for 10,000 pods).
Writing takes 100 ms, in slices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from hetserve.placement import Booking, GpuUse, NodeInventory, State
from hetserve.placement.ledger.allocations import Allocations
from hetserve.placement.ledger.problems import Problem
from hetserve.placement.placer import Placer
from hetserve_shell.tasks.slices import Shared, Slices

BLOCK: Final = 64 << 10
"""Least bytes of a block."""
TURN: Final = 50
"""Bookings between two turns."""
_BREAK: Final = b"\n    "
"""Indentation of a list entry."""


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The ledger at one moment."""

    inventories: tuple[NodeInventory, ...]
    bookings: tuple[Booking, ...]
    pod_problems: tuple[Problem, ...]
    """Problems of unreadable pods, and of pods that do not say what they hold."""

    @classmethod
    def of(cls, placer: Placer) -> LedgerView:
        """Copies references; call on the event loop."""
        ledger = placer.ledger
        problems = (*ledger.annotation_problems().values(), *placer.unreadable.values())
        return cls(tuple(ledger.inventories().values()), tuple(ledger.bookings().values()), problems)

    async def text(self, slices: Slices | None = None) -> list[bytes]:
        slices = slices or Slices()
        blocks, block = list[bytes](), bytearray()
        for piece in self.pieces():
            block += piece
            if len(block) >= BLOCK:
                blocks.append(bytes(block))
                block.clear()
            await slices.turn()
        return [*blocks, bytes(block)]

    def pieces(self) -> Iterator[bytes]:
        problems = [problem.text for problem in self.pod_problems]
        yield b'{\n  "gpus": '
        yield from _array(self._gpus(problems))
        problems.sort()
        yield b',\n  "problems": '
        yield from _array(orjson.dumps(problem) for problem in problems)
        yield b"\n}"

    def _gpus(self, problems: list[str]) -> Iterator[bytes]:
        """Every GPU by node name and id; appends to `problems`."""
        for allocations in by_node(self.inventories, self.bookings):
            yield b""
            if allocations is not None:
                problems += (problem.text for problem in allocations.problems())
                yield from map(_gpu, allocations.uses())


class LedgerTexts:
    def __init__(self, placer: Placer) -> None:
        self._shared = Shared(lambda: LedgerView.of(placer).text())

    async def text(self) -> list[bytes]:
        return await self._shared.answer()


def by_node(inventories: Sequence[NodeInventory], bookings: Sequence[Booking]) -> Iterator[Allocations | None]:
    """Allocations by node name, including nodes that only bookings name. None: a turn."""
    held = dict[str, list[Booking]]()
    for number, booking in enumerate(bookings):
        held.setdefault(booking.node, []).append(booking)
        if number % TURN == 0:
            yield None
    nodes = {node.name: node for node in inventories}
    for name in sorted(nodes.keys() | held.keys()):
        allocations = Allocations()
        if name in nodes:
            allocations.set_node(nodes[name])
        for booking in held.get(name, ()):
            allocations.put(booking)
        yield allocations


def _array(entries: Iterator[bytes]) -> Iterator[bytes]:
    """A JSON array; an empty entry is a turn."""
    first = True
    for entry in entries:
        if entry:
            yield (b"[" if first else b",") + _BREAK + entry
            first = False
        else:
            yield b""
    yield b"[]" if first else b"\n  ]"


def _gpu(use: GpuUse) -> bytes:
    view = use.document() | {"pods": [_pod(booking, use) for booking in use.bookings]}
    return orjson.dumps(view, option=orjson.OPT_INDENT_2).replace(b"\n", _BREAK)


def _pod(booking: Booking, use: GpuUse) -> dict[str, Any]:
    return booking.request.identity() | {
        "memoryMiB": booking.mib[booking.places.index((use.node, use.gpu.id))],
        "computePercent": booking.request.compute,
        "state": "bound" if booking.state is State.BOUND else "reserved",
    }
