"""Files that another process may read at any time."""

from __future__ import annotations

from pathlib import Path
from tempfile import NamedTemporaryFile


def write_whole(path: Path, text: str, mode: int = 0o644) -> None:
    """Write a file so that whoever opens it gets all of it: what was there before or `text`, never a part.

    `mode` holds from the first byte on. Missing folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        fresh = Path(file.name)  # only its owner may read it
        try:
            file.write(text)
            file.close()
            fresh.chmod(mode)
            fresh.replace(path)
        except BaseException:
            fresh.unlink(missing_ok=True)
            raise
