"""Small made-up trees."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from house.tree import Tree, read

Written = Callable[[Mapping[str, str]], Tree]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    """Writes files by their relative paths and reads the tree that they make."""

    def write(files: Mapping[str, str]) -> Tree:
        for path, text in files.items():
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text(textwrap.dedent(text))
        return read(tmp_path)

    return write
