"""Atomic writes of files that other processes read."""

from __future__ import annotations

from pathlib import Path
from tempfile import NamedTemporaryFile


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Replaces a file atomically, with its folders; `mode` applies from the first byte."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        fresh = Path(file.name)
        try:
            file.write(text)
            file.close()
            fresh.chmod(mode)
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
