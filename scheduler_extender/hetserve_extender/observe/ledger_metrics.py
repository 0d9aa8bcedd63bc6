"""Metrics of the ledger: copied at once, written in slices (100 ms of work for 8,000 GPUs and 10,000 pods)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hetserve.placement.ledger.allocations import Allocations
from hetserve.placement.ledger.bookings import Booking, Cause, FreeMemoryCount, GpuUse, State
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.placer import Placer
from hetserve_extender.observe.ledger_view import by_node
from hetserve_shell.tasks.slices import Slices

_PER_GPU: Final[Sequence[tuple[str, str, Callable[[GpuUse], int]]]] = (
    ("hetserve_gpu_free_mib", "MiB free on a GPU (negative: over-used).", lambda use: use.free_mib),
    ("hetserve_gpu_memory_mib", "MiB of a GPU.", lambda use: use.gpu.memory_mib),
    (
        "hetserve_gpu_pods",
        "Pods that hold a share of a GPU, reserved ones included.",
        lambda use: len(use.bookings),
    ),
    (
        "hetserve_gpu_compute_booked_percent",
        "Percent of a GPU's compute that pods have booked (above 100: over-booked; whole: 100).",
        lambda use: use.booked_compute,
    ),
    (
        "hetserve_gpu_undeclared_pods",
        "Pods that share a GPU and declare no compute.",
        lambda use: len(use.undeclared),
    ),
    ("hetserve_gpu_healthy", "1 where the inventory says that a GPU is healthy.", lambda use: int(use.gpu.healthy)),
)
_TURN: Final = 500
"""Bookings between two turns."""


@dataclass(frozen=True, slots=True)
class LedgerFigures:
    """The ledger at one moment."""

    inventories: tuple[NodeInventory, ...]
    bookings: tuple[Booking, ...]
    misread: int
    """Pods that are unreadable or do not say what they hold."""
    stuck: int = 0
    """Unreadable pods at our gate."""

    @classmethod
    def of(cls, placer: Placer) -> LedgerFigures:
        """Copies references; call on the event loop."""
        ledger = placer.ledger
        misread = len(placer.unreadable) + len(ledger.annotation_problems())
        return cls(
            tuple(ledger.inventories().values()), tuple(ledger.bookings().values()), misread, len(placer.stuck())
        )

    async def text(self, slices: Slices | None = None) -> bytes:
        slices, count = slices or Slices(), _Count()
        for start in range(0, len(self.bookings), _TURN):
            some = self.bookings[start : start + _TURN]
            count.states.update(booking.state for booking in some if booking.request.needs_gpu)
            await slices.turn()
        for allocations in by_node(self.inventories, self.bookings):
            if allocations is not None:
                count.take(allocations)
            await slices.turn()
        text = count.totals(self.misread, self.stuck).encode()
        for lines in count.lines:
            await slices.turn()
            text += "".join(lines).encode()
        return text


class _Count:
    def __init__(self) -> None:
        self.states = Counter[State]()
        self.closed = Counter[Cause]()
        self.problems = 0
        self.free = FreeMemoryCount()
        self.lines = [[_head(name, words)] for name, words, _ in _PER_GPU]

    def take(self, node: Allocations) -> None:
        self.problems += sum(1 for _ in node.problems())
        for closing in node.closed_nodes().values():
            self.closed.update({one.cause for one in closing})
        for use in node.uses():
            self.free.add(use)
            labels = _labels(use)
            for lines, (name, _, value) in zip(self.lines, _PER_GPU, strict=True):
                lines.append(f"{name}{{{labels}}} {float(value(use))}\n")

    def totals(self, misread: int, stuck: int) -> str:
        free = self.free.counted()
        text = _head("hetserve_bookings", "Pods on GPUs by state.")
        text += "".join(f'hetserve_bookings{{state="{one.value}"}} {float(self.states[one])}\n' for one in State)
        closed = "Nodes with GPUs that take no new pods, for nobody knows which GPUs some of their pods have."
        text += _head("hetserve_closed_nodes", closed)
        text += "".join(f'hetserve_closed_nodes{{cause="{one.value}"}} {float(self.closed[one])}\n' for one in Cause)
        stranded = "Share of the free memory that lies on GPUs with less free than the median request."
        values = (
            ("hetserve_queue_unreadable", "Pods at the gate that cannot be read and are in no queue.", stuck),
            ("hetserve_ledger_problems", "Things that do not add up.", misread + self.problems),
            ("hetserve_free_mib", "MiB free on GPUs that take pods, all together.", free.total),
            ("hetserve_largest_free_mib", "The most MiB that one GPU that takes pods has free.", free.largest),
            ("hetserve_median_request_mib", "Median of the shares that pods hold.", free.median_request),
            ("hetserve_fragmentation_ratio", stranded, free.fragmentation),
        )
        return text + "".join(
            f"{_head(name, words)}{name} {float(it)}\n" for name, words, it in values if it is not None
        )


def _head(name: str, words: str) -> str:
    return f"# HELP {name} {words}\n# TYPE {name} gauge\n"


def _labels(use: GpuUse) -> str:
    found = (("gpu", use.gpu.id), ("node", use.node), ("product", use.gpu.product))
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in found)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
