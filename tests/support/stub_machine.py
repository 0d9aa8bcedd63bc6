"""A machine of stubs for tests of shell scripts: a PATH with few tools of this machine and programs of a test's own."""

from __future__ import annotations

import shutil
from pathlib import Path


def program(path: Path, text: str) -> Path:
    """A program of sh. text: its lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def tools(folder: Path, *names: str) -> Path:
    """A folder for PATH with these tools of this machine and no other."""
    for name in names:
        found = shutil.which(name)
        assert found is not None, f"this machine has no {name}"
        program(folder / name, f'exec {found} "$@"')
    return folder
