"""Which commit an image is of: a commit that changes nothing of it makes no other image."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from images import build
from images.lock import ROOT

Commit = Callable[[str, int], str]


@pytest.fixture
def commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Commit:
    """Writes a file of a repository of its own and commits it at a second of 1970; returns the commit."""
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)

    def git(*words: str, at: int = 0) -> str:
        who = {f"GIT_{role}_{what}": "who" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "GIT_COMMITTER_DATE": f"@{at} +0000"} | who
        return subprocess.run(
            ["git", *words], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()

    def written(name: str, at: int) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{at}\n", encoding="utf-8")
        git("add", "--all")
        git("commit", "--quiet", "--message", name, at=at)
        return git("rev-parse", "HEAD")

    git("init", "--quiet")
    return written


def test_a_commit_of_something_else_makes_the_same_image(commit: Commit) -> None:
    of_the_image = commit("src/hetserve/plan.py", 1000)
    commit("tests/test_plan.py", 2000)
    assert (build.revision(), build.epoch()) == (of_the_image, 1000)
    newer = commit("shell_kit/logs.py", 3000)
    assert (build.revision(), build.epoch()) == (newer, 3000)


def test_what_is_not_committed_is_said_where_it_is_in_the_image(commit: Commit, tmp_path: Path) -> None:
    clean = commit("src/hetserve/plan.py", 1000)
    (tmp_path / "notes.txt").write_text("later\n", encoding="utf-8")
    assert build.revision() == clean
    (tmp_path / "src/hetserve/plan.py").write_text("changed\n", encoding="utf-8")
    assert build.revision() == f"{clean}-dirty"


def test_without_a_repository_nothing_is_claimed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert build.revision() == "unknown"


def test_all_that_is_copied_into_an_image_counts() -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [line.split()[1:-1] for line in lines if re.match(r"COPY (?!--from)", line)]
    sources = {word for words in copied for word in words if not word.startswith("build/wheel")}
    assert sources, "the Containerfile is read"
    for source in sources:
        assert any(Path(source).is_relative_to(part) for part in build.MADE_OF), source
