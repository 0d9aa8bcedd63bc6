"""The ledger as JSON and as metrics, and the extender's routes on the probe port.

Shows one moment: inventories and bookings are immutable, so references are the snapshot (0.2 ms for 10,000 pods).
Writing takes 100 ms, in slices.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import urlsplit

import orjson

from hetserve.placement.ledger.allocations import Allocations
from hetserve.placement.ledger.bookings import Booking, Cause, FreeMemory, GpuUse, State
from hetserve.placement.ledger.inventory import NodeInventory
from hetserve.placement.ledger.problems import LedgerProblem
from hetserve.placement.placer import Placer
from hetserve_extender.observe.placement_log import PlacementLog
from hetserve_shell.http.client import HttpClient
from hetserve_shell.http.handlers import Handler, Reply
from hetserve_shell.tasks.slices import Shared, Slices, in_blocks

TURN: Final = 50
"""Bookings between two turns."""
_COUNTED_TURN: Final = 500
"""Of them where they are only counted."""
_BREAK: Final = b"\n    "
"""Indentation of a list entry."""


@dataclass(frozen=True, slots=True)
class LedgerView:
    """The ledger at one moment."""

    inventories: tuple[NodeInventory, ...]
    bookings: tuple[Booking, ...]
    pod_problems: tuple[LedgerProblem, ...]
    """Problems of unreadable pods, and of pods that do not say what they hold."""
    stuck: int
    """Unreadable pods at our gate."""

    @classmethod
    def of(cls, placer: Placer) -> LedgerView:
        """Copies references; call on the event loop."""
        ledger = placer.ledger
        problems = (*ledger.annotation_problems().values(), *placer.unreadable.values())
        inventories, bookings = tuple(ledger.inventories().values()), tuple(ledger.bookings().values())
        return cls(inventories, bookings, problems, len(placer.stuck()))

    async def text(self, slices: Slices | None = None) -> list[bytes]:
        return await in_blocks(self.pieces(), slices or Slices())

    async def metrics(self, slices: Slices | None = None) -> bytes:
        """In the text format of Prometheus."""
        slices, count = slices or Slices(), _Count()
        for start in range(0, len(self.bookings), _COUNTED_TURN):
            some = self.bookings[start : start + _COUNTED_TURN]
            count.states.update(booking.state for booking in some if booking.request.needs_gpu)
            await slices.turn()
        for allocations in by_node(self.inventories, self.bookings):
            if allocations is not None:
                count.take(allocations)
            await slices.turn()
        text = count.totals(len(self.pod_problems), self.stuck).encode()
        for lines in count.lines:
            await slices.turn()
            text += "".join(lines).encode()
        return text

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
                yield from map(_gpu, allocations.gpus())


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
    shared = use.shared_on_terms()
    pods = [_pod(booking, use) | {"sharing": shared.get(booking.request.uid)} for booking in use.bookings]
    view = use.document() | {"pods": pods}
    return orjson.dumps(view, option=orjson.OPT_INDENT_2).replace(b"\n", _BREAK)


def _pod(booking: Booking, use: GpuUse) -> dict[str, Any]:
    return booking.request.identity() | {
        "memoryMiB": booking.mib[booking.places.index((use.node, use.gpu.id))],
        "computePercent": booking.request.compute,
        "state": "bound" if booking.state is State.BOUND else "reserved",
    }


WITHIN: Final = 0.8
"""Seconds for the scheduler's answer: the kubelet waits for one."""


def placement_routes(placer: Placer, placement_log: PlacementLog | None = None) -> dict[bytes, Handler]:
    """/ledger, and /log of `placement_log`; None: /log answers 404."""
    texts = Shared(lambda: LedgerView.of(placer).text())

    async def ledger() -> Reply:
        return Reply(await texts.answer(), "application/json")

    async def log() -> Reply:
        if placement_log is None:
            about = "no placement log is kept; the setting placementLog (such as 16Mi) makes one"
            return Reply.text(about, HTTPStatus.NOT_FOUND)
        return Reply(await placement_log.text(), "application/jsonl")

    return {b"/ledger": lambda _body: ledger(), b"/log": lambda _body: log()}


def life_of_both(scheduler_url: str) -> Callable[[], Coroutine[Any, Any, str]]:
    """Says why this pod should place nothing: its scheduler does not live; empty if it does.

    The kubelet asks for the scheduler's container. One that asks an extender that hangs, or that has ended, gets no
    answer, and ends the scheduler: it releases its Lease, and the next pod leads.

    scheduler_url: where the scheduler says that it lives; its certificate is its own. Empty: it is not asked.
    """
    parts = urlsplit(scheduler_url)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    client = HttpClient(f"{parts.scheme}://{parts.netloc}", trusting, 1)

    asking: asyncio.Task[str] | None = None

    async def why_not() -> str:
        """Whoever asks meanwhile gets the same answer: many who ask must not make the kubelet wait."""
        nonlocal asking
        if not scheduler_url:
            return ""
        if asking is None or asking.done():
            asking = asyncio.create_task(asked())
        return await asyncio.shield(asking)

    async def asked() -> str:
        try:
            status, _ = await client.request("GET", parts.path, headers={}, timeout=WITHIN)
        except OSError as error:
            return f"the scheduler does not answer: {error}"
        return "" if status == HTTPStatus.OK else f"the scheduler answers {status}"

    return why_not


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
        "Percent of a GPU's compute, or of what its pods tolerate, that they have booked (above 100: too much).",
        lambda use: use.booked_compute,
    ),
    (
        "hetserve_gpu_undeclared_pods",
        "Pods that share a GPU and declare no compute.",
        lambda use: len(use.undeclared),
    ),
    ("hetserve_gpu_healthy", "1 where the inventory says that a GPU is healthy.", lambda use: int(use.gpu.healthy)),
)


class _Count:
    def __init__(self) -> None:
        self.states = Counter[State]()
        self.closed = Counter[Cause]()
        self.problems = 0
        self.free = FreeMemory()
        self.lines = [[_head(name, about)] for name, about, _ in _PER_GPU]

    def take(self, node: Allocations) -> None:
        self.problems += sum(1 for _ in node.problems())
        for closing in node.closed_nodes().values():
            self.closed.update({one.cause for one in closing})
        for use in node.gpus():
            self.free.add(use)
            labels = _labels(use)
            for lines, (name, _, value) in zip(self.lines, _PER_GPU, strict=True):
                lines.append(f"{name}{{{labels}}} {float(value(use))}\n")

    def totals(self, misread: int, stuck: int) -> str:
        free = self.free
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
            f"{_head(name, about)}{name} {float(it)}\n" for name, about, it in values if it is not None
        )


def _head(name: str, about: str) -> str:
    return f"# HELP {name} {about}\n# TYPE {name} gauge\n"


def _labels(use: GpuUse) -> str:
    found = (("gpu", use.gpu.id), ("node", use.node), ("product", use.gpu.product))
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in found)


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
