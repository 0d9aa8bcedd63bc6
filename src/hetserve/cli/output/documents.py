"""JSON or YAML: one object for one service, `items` for several."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., Any])

FORMATS: Final = ("table", "json", "yaml")
"""Choices of `-o`; a table is no document."""


def view_option(wide: str) -> Callable[[_Command], _Command]:
    """Option `-o` with a wide table; `wide`: its help."""
    return click.option(
        "-o",
        "--output",
        type=click.Choice(["table", "wide", "json", "yaml"]),
        default="table",
        show_default=True,
        help=wide,
    )


def dump(documents: Sequence[dict[str, Any]], form: str, *, rows: bool = False) -> str:
    """Text in `form` (json, yaml) with a final newline. rows: YAML with a line for each entry of a table."""
    whole: Any = documents[0] if len(documents) == 1 else {"items": list(documents)}
    if form == "json":
        return json.dumps(whole, indent=2, allow_nan=False) + "\n"
    import yaml  # noqa: PLC0415

    style, width = (None, 200) if rows else (False, 110)
    return str(yaml.safe_dump(whole, sort_keys=False, allow_unicode=True, default_flow_style=style, width=width))
