"""Compares placement policies over the pods of one log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from rich.table import Table

from hetserve.cli.output.terminal import Block
from hetserve.placement.log.what_if import WhatIf

_ROWS: Final[tuple[tuple[str, Callable[[WhatIf], str]], ...]] = (
    ("pods that arrived", lambda one: str(one.arrived)),
    ("placed", lambda one: str(one.placed)),
    ("placed before the first refusal", lambda one: str(one.placed_before_refusal)),
    ("refused at first", lambda one: str(one.refused)),
    ("never placed", lambda one: str(one.never_placed)),
    ("longest wait for a place, s", lambda one: f"{one.longest_wait:.1f}"),
    ("most pods on one GPU", lambda one: str(one.most_pods_on_a_gpu)),
    ("largest free share at the end, MiB", lambda one: str(one.largest_free)),
    ("fragmentation at the end", lambda one: "-" if one.fragmentation is None else f"{one.fragmentation:.0%}"),
)


def block(courses: Sequence[WhatIf]) -> Block:
    """A column per policy; the log's own first."""
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("")
    for number, course in enumerate(courses):
        table.add_column(course.policy + (" (as it was)" if number == 0 else ""), justify="right")
    for label, value in _ROWS:
        table.add_row(label, *(value(course) for course in courses))
    lines = (("model", "placed at once where there is room, waiting pods first when room comes"),)
    return Block("the pods of this log under each policy", lines, (table,))
