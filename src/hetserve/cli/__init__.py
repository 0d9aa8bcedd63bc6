"""The hetserve command."""

from __future__ import annotations

import gc
from typing import Final

_GARBAGE: Final = 100_000
"""Objects made before the collector looks at them: what is imported stays, and a look at all of it takes time."""


def main() -> None:
    gc.set_threshold(_GARBAGE)
    # Late, so that importing hetserve.cli loads no click.
    from hetserve.cli.app import app  # noqa: PLC0415

    app(prog_name="hetserve")
