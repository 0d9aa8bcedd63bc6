"""A tree of the project: a folder, or a git revision in a temporary folder."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from house.source import Source

PRODUCT: Final = ("src", "operator", "scheduler_extender", "shell_kit", "twin")
"""Shipped code."""
ROOTS: Final = (*PRODUCT, "e2e", "proofs", "benchmarks", "tests")
"""Folders of Python."""
UNREAD: Final = ("build", "dist", "__pycache__")


class RevisionError(Exception):
    """Git knows no such revision, or the folder is no checkout."""


@dataclass(frozen=True, slots=True)
class Tree:
    """`files`: relative paths. `sources`: Python below ROOTS."""

    folder: Path
    files: tuple[str, ...]
    sources: tuple[Source, ...]

    def below(self, *folders: str) -> tuple[Source, ...]:
        return tuple(source for source in self.sources if source.path.startswith(tuple(f"{f}/" for f in folders)))

    @property
    def product(self) -> tuple[Source, ...]:
        return self.below(*PRODUCT)


@contextmanager
def opened(name: str, checkout: Path) -> Iterator[Tree]:
    """Reads the folder `name`, or else that revision of `checkout`, for the block. Raises RevisionError."""
    if Path(name).is_dir():
        yield read(Path(name))
        return
    with tempfile.TemporaryDirectory(prefix="house-") as folder:
        archive = _git(checkout, "archive", "--format=tar", name)
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        yield read(Path(folder))


def read(folder: Path) -> Tree:
    """Without hidden files and build outputs."""
    files = tuple(sorted(_files(folder)))
    python = (path for path in files if path.endswith(".py") and path.split("/")[0] in ROOTS)
    return Tree(folder, files, tuple(Source(path, (folder / path).read_text()) for path in python))


def is_ancestor(revision: str, checkout: Path) -> bool:
    try:
        _git(checkout, "merge-base", "--is-ancestor", revision, "HEAD")
    except RevisionError:
        return False
    return True


def _files(folder: Path) -> Iterator[str]:
    for path, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in UNREAD]
        yield from (str((Path(path) / name).relative_to(folder)) for name in names if not name.startswith("."))


def _git(checkout: Path, *arguments: str) -> bytes:
    done = subprocess.run(["git", "-C", checkout, *arguments], capture_output=True, check=False)
    if done.returncode:
        raise RevisionError(done.stderr.decode().strip())
    return done.stdout
