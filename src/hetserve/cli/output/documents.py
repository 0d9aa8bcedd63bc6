"""Answers as JSON or YAML: one object for one service, `items` for several."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from hetserve.cli.capacity.not_planned import NotPlanned, answered

T = TypeVar("T")


def dump(documents: Sequence[dict[str, Any]], form: str) -> str:
    """Text that ends with a newline."""
    whole: Any = documents[0] if len(documents) == 1 else {"items": list(documents)}
    if form == "json":
        return json.dumps(whole, indent=2, allow_nan=False) + "\n"
    import yaml  # noqa: PLC0415

    return str(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, width=110))


def answers(
    found: Sequence[T | NotPlanned],
    form: str,
    document: Callable[[T], dict[str, Any]],
    table: Callable[[Sequence[T]], str],
) -> str:
    """Every service's answer in the form asked; what was refused is in a document, and not in a table."""
    if form == "table":
        results = answered(found)
        return table(results) if results else ""
    return dump([one.document() if isinstance(one, NotPlanned) else document(one) for one in found], form)
