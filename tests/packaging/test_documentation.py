"""What the documentation points at exists: pages, sections, files of the tree, targets of make."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
OF_THE_TREE = re.compile(r"`((?:tests|src|docs|e2e|benchmarks|proofs|charts|manifests)/[\w./*-]+)`")
"""Paths in backticks; a star stands for any name."""


def tracked(pattern: str) -> list[str]:
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


PAGES = tracked("*.md")


@cache
def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


@cache
def sections(page: Path) -> frozenset[str]:
    """Anchors of a page's headings, as a forge makes them."""
    headings = (
        heading.replace("`", "").strip().lower() for heading in re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    )
    return frozenset(re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings)


def is_there(page: Path, link: str) -> bool:
    path, _, section = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return target.exists() and (not section or target.suffix != ".md" or section in sections(target))


def links(page: Path) -> list[str]:
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    return [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]


def test_every_link_of_a_page_leads_somewhere() -> None:
    found = [(name, link) for name in PAGES for link in links(ROOT / name) if not is_there(ROOT / name, link)]
    assert found == []


def test_every_file_and_target_that_a_page_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    tests = {Path(path).name for path in tracked("tests/*.py") + tracked("e2e/*.py")}
    for name in PAGES:
        text = prose(ROOT / name)
        assert [path for path in OF_THE_TREE.findall(text) if not list(ROOT.glob(path))] == [], name
        assert set(re.findall(r"`make ([a-z][a-z0-9-]*)", text)) - targets == set(), name
        assert set(re.findall(r"`(test_\w+\.py)`", text)) - tests == set(), name


def test_there_are_links_and_files_to_look_at() -> None:
    text = "\n".join(prose(ROOT / name) for name in PAGES)
    assert len(re.findall(r"\]\(([^)\s]+)\)", text)) > 20
    assert len(OF_THE_TREE.findall(text)) > 20
