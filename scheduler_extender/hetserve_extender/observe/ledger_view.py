"""The ledger as JSON for people and tools: every GPU with its pods, and what does not add up.

It shows one moment: inventories and bookings are values that never change, so that copying their references
(0.2 ms for 10,000 pods) is the whole snapshot. Reading them takes 100 ms, in pieces between which verbs are answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from hetserve.placement import Booking, GpuUse, NodeInventory, State
from hetserve.placement.ledger.allocations import Allocations
from hetserve.placement.ledger.problems import Problem, problem_text
from hetserve.placement.placer import Placer
from hetserve_shell.tasks.slices import Shared, Slices

BLOCK: Final = 64 << 10
"""Bytes, at least, of the blocks in which the text is handed on."""
TURN: Final = 50
"""Bookings that are one little step."""
_BREAK: Final = b"\n    "
"""Where an entry of either list begins, as orjson indents a whole document."""


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The ledger at one moment; nothing here changes any more."""

    inventories: tuple[NodeInventory, ...]
    bookings: tuple[Booking, ...]
    pod_problems: tuple[Problem, ...]
    """What is wrong with pods that cannot be read, or do not say what they hold."""

    @classmethod
    def of(cls, placer: Placer) -> LedgerView:
        """A copy of references; to be made where the ledger changes, on the event loop."""
        ledger = placer.ledger
        problems = (*ledger.annotation_problems().values(), *placer.unreadable.values())
        return cls(tuple(ledger.inventories().values()), tuple(ledger.bookings().values()), problems)

    async def text(self, slices: Slices | None = None) -> list[bytes]:
        """The JSON, indented, in blocks that a socket takes at once."""
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
        """The JSON in little steps, of which some make no text."""
        problems = [problem_text(problem) for problem in self.pod_problems]
        yield b'{\n  "gpus": '
        yield from _array(self._gpus(problems))
        problems.sort()
        yield b',\n  "problems": '
        yield from _array(orjson.dumps(problem) for problem in problems)
        yield b"\n}"

    def _gpus(self, problems: list[str]) -> Iterator[bytes]:
        """Every GPU in the order of node name and id; into `problems` what does not add up."""
        for allocations in by_node(self.inventories, self.bookings):
            yield b""
            if allocations is not None:
                problems += map(problem_text, allocations.problems())
                yield from map(_gpu, allocations.uses())


class LedgerTexts:
    """The text for all who ask."""

    def __init__(self, placer: Placer) -> None:
        self._shared = Shared(lambda: LedgerView.of(placer).text())

    async def text(self) -> list[bytes]:
        """The ledger at a moment after the call."""
        return await self._shared.answer()


def by_node(inventories: Sequence[NodeInventory], bookings: Sequence[Booking]) -> Iterator[Allocations | None]:
    """The allocations of each node, by name, including nodes that only bookings name; None is a step as well.

    A pod's GPUs are all of one node, so the nodes do not depend on each other.
    """
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
    """A JSON array of entries; an empty one is no entry, only a step."""
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
        "state": "bound" if booking.state is State.BOUND else "reserved",
    }
