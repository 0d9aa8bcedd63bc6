"""The pages of the documentation, and what they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_SHOWN: Final = re.compile(r"^(?: {4}|\$ )?(?:\S+ .*\| )?(?:\.venv/bin/)?(hetserve [a-z].*)$", re.MULTILINE)


def shown(text: str) -> Iterator[str]:
    """Commands of hetserve in blocks of code, fenced or indented, without what a pipe or a comment adds."""
    blocks = [block for language, block in FENCED.findall(text) if language in {"", "sh", "console"}]
    blocks += re.findall(r"(?:^ {4}\S.*\n)+", FENCED.sub("", text), re.MULTILINE)
    for block in blocks:
        for command in _SHOWN.findall(block.replace("\\\n", "")):
            yield re.split(r" [#|>] ?", command)[0]
