"""The pages of the documentation, and what they show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCED: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PROGRAMS: Final = ("cosign", "docker", "git", "helm", "hetserve", "kubectl", "make", "pip", "promtool", "python", "uv")
"""What begins a command in a block that shows other text, too."""
SHELLS: Final = frozenset({"", "bash", "console", "sh", "shell", "text"})
"""Languages of blocks that may hold commands; `sh` holds nothing else."""
_ANY_FENCED: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
"""Those within the items of a list, too."""
_INDENTED: Final = re.compile(r"(?:^ {4}.*\S.*\n)+", re.MULTILINE)
_COMMENT: Final = re.compile(r"(?:^|\s+)# .*$")
_BEGINS: Final = re.compile(rf"(?:\S*/)?(?:{'|'.join(PROGRAMS)})(?:-[a-z]+)* \S|source |export ")
_HETSERVE: Final = re.compile(r"(?:^|\| |<\()(?:\.venv/bin/)?(hetserve [a-z][^|>)#]*)")


def commands(text: str) -> Iterator[str]:
    """Command lines in blocks of code, fenced or indented: without comments, those over several lines as one.

    A block marked `sh` has nothing else. Of others it is what follows a prompt, or else what begins with a program.
    """
    for _, language, block in _ANY_FENCED.findall(text):
        if language in SHELLS:
            yield from _of_block(dedent(block), shell=language == "sh")
    for block in _INDENTED.findall(_ANY_FENCED.sub("", text)):
        yield from _of_block(dedent(block), shell=False)


def _of_block(block: str, *, shell: bool) -> Iterator[str]:
    prompted = re.findall(r"^\$ (.*)$", block, re.MULTILINE)
    for line in _whole_lines("\n".join(prompted) if prompted else block):
        if shell or prompted or any(_BEGINS.match(part) for part in line.split(" | ")):
            yield line


def _whole_lines(block: str) -> Iterator[str]:
    """Lines without comments; one that ends in a backslash or within quotes goes on with the next."""
    begun = ""
    for line in block.splitlines():
        begun += _COMMENT.sub("", line) if not begun or begun.endswith(" ") else f"\n{line}"
        if begun.endswith("\\"):
            begun = f"{begun[:-1].rstrip()} "
        elif _open(begun) and re.match(r"\w", begun):
            continue
        elif begun.strip():
            yield re.sub(r"\s+", " ", begun).strip()
            begun = ""


def _open(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError:
        return True
    return False


def shown(text: str) -> Iterator[str]:
    """Commands of hetserve in blocks of code, without what a pipe adds."""
    for line in commands(text):
        for command in _HETSERVE.findall(line):
            yield command.strip()
