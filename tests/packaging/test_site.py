"""The site of `make docs`: it builds without a warning, and what leads nowhere is one."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


def built(source: Path, into: Path) -> subprocess.CompletedProcess[str]:
    """What the recipe of `make docs` does, into another folder."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (recipe,) = re.findall(r"^\t\$\(BIN\)/python (-m sphinx .*) docs build/site$", makefile, re.MULTILINE)
    command = [sys.executable, *recipe.split(), "--keep-going", "--no-color", str(source), str(into)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.deep
def test_the_site_builds_without_a_warning_and_has_every_page(tmp_path: Path) -> None:
    done = built(DOCS, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    pages = {path.relative_to(DOCS).with_suffix(".html") for path in DOCS.rglob("*.md")}
    assert {page for page in pages if not (tmp_path / page).exists()} == set()


@pytest.mark.deep
def test_a_link_to_nowhere_and_a_page_in_no_list_fail_the_build(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    shutil.copy(DOCS / "conf.py", docs)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (docs / "index.md").write_text("# Pages\n\n[one](gone.md) [two](#nowhere)\n", encoding="utf-8")
    (docs / "lost.md").write_text("# Lost\n", encoding="utf-8")
    done = built(docs, tmp_path / "site")
    assert done.returncode != 0
    assert "gone.md" in done.stderr
    assert "nowhere" in done.stderr
    assert "lost.md: WARNING: document isn't included in any toctree" in done.stderr
