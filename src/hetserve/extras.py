"""Modules that only an extra of the distribution installs."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Final

from hetserve.signals import end_on_sigterm

EXIT_MISSING: Final = 2
_OF_COMMANDS: Final = {
    "kubernetes": "cluster",
    "urllib3": "cluster",
    "highspy": "planning",
    "numba": "planning",
    "pulp": "planning",
    "scipy": "planning",
    "matplotlib": "plot",
    "sklearn": "search",
    "threadpoolctl": "search",
}


def install_hint(error: ModuleNotFoundError, extra: str | None = None) -> str | None:
    """What to install for a missing module; None if no extra brings it.

    extra: that of the importer; None: the one known for the module.
    """
    module = (error.name or "").partition(".")[0]
    extra = extra or _OF_COMMANDS.get(module)
    if extra is None or not module or module.startswith("hetserve"):
        return None
    return f"this needs {module}, which is not installed: pip install 'hetserve[{extra}]'"


def run_main(module: str, extra: str) -> None:
    """Runs a module's `main`; a missing extra ends it with one line and exit code 2."""
    end_on_sigterm()
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        hint = install_hint(error, extra)
        if hint is None:
            raise
        sys.stderr.write(f"Error: {hint}\n")
        sys.exit(EXIT_MISSING)
    main()
