"""Modules that only an extra of the distribution installs: what is said where one is missing."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

EXIT_MISSING: Final = 2
_OF_COMMANDS: Final = {
    "kubernetes": "cluster",
    "urllib3": "cluster",
    "matplotlib": "plot",
    "sklearn": "search",
    "threadpoolctl": "search",
}


def install_hint(error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """What to install for a module that is not there; None where no extra brings it.

    extra: the one that whoever imports it is part of; None: the one that the command line knows the module by.
    """
    module = (error.name or "").partition(".")[0]
    extra = extra or _OF_COMMANDS.get(module)
    if extra is None or not module or module.startswith("hetserve"):
        return None
    return f"this needs {module}, which is not installed: pip install 'hetserve[{extra}]'"


def run_main(module: str, extra: str) -> None:
    """Run `main` of a module that imports what an extra brings; without it, end with one line and exit code 2."""
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        hint = install_hint(error, extra)
        if hint is None:
            raise
        sys.stderr.write(f"Error: {hint}\n")
        sys.exit(EXIT_MISSING)
    main()
