"""The hetserve command."""

from __future__ import annotations

import gc
import sys
from typing import Final

from hetserve.signals import end_on_sigterm

_GARBAGE: Final = 100_000
"""Objects made before the collector looks at them: what is imported stays, and a look at all of it takes time."""


def main() -> None:
    """The command `hetserve`."""
    _run("hetserve")


def kubectl_main() -> None:
    """The plugin `kubectl hetserve`: the same commands under kubectl's name."""
    _run("kubectl hetserve")


def kubectl_complete() -> None:
    """What kubectl's completion calls: words that continue the arguments."""
    from hetserve.cli.app import completions  # noqa: PLC0415

    sys.stdout.write(completions(sys.argv[1:]))


def _run(name: str) -> None:
    end_on_sigterm()
    gc.set_threshold(_GARBAGE)
    # Late, so that importing hetserve.cli loads no click.
    from hetserve.cli.app import app  # noqa: PLC0415

    app(prog_name=name)
