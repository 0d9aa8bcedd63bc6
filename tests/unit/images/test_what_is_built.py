"""Which commit an image is of: a commit that changes nothing of it makes no other image, and none is made twice."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from images import build
from images.engines import Engine
from images.lock import ROOT

import hetserve

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


BASED: Final = {
    "SOURCE_DATE_EPOCH": "1000",
    "REVISION": "0a" * 20,
    "CREATED": "1970-01-01T00:16:40Z",
    "BASE": "localhost/base:1",
}


class Holding(Engine):
    """An engine that has one image, with these labels."""

    def labels(self, tag: str) -> Mapping[str, str]:
        return (
            build.labels_of(BASED) | {"org.opencontainers.image.title": "hetserve"}
            if tag.endswith("/extender:" + hetserve.__version__)
            else {}
        )


@pytest.mark.parametrize(
    ("component", "other", "there"),
    [
        ("extender", {}, True),
        ("operator", {}, False),
        ("extender", {"REVISION": "0b" * 20}, False),
        ("extender", {"BASE": "localhost/base:2"}, False),
        ("extender", {"BASE": ""}, False),
        ("extender", {"CREATED": "1970-01-01T00:16:41Z"}, False),
    ],
)
def test_an_image_is_there_where_commit_time_and_base_are_the_same(
    component: str, other: dict[str, str], there: bool
) -> None:
    assert build.is_there(Holding("docker"), component, BASED | other) is there


@pytest.mark.parametrize("revision", ["unknown", f"{'0a' * 20}-dirty"])
def test_an_image_of_no_commit_is_never_there(monkeypatch: pytest.MonkeyPatch, revision: str) -> None:
    changed = BASED | {"REVISION": revision}
    monkeypatch.setattr(Holding, "labels", lambda _, __: build.labels_of(changed))
    assert not build.is_there(Holding("docker"), "extender", changed)


def test_without_a_base_the_image_is_of_the_containerfiles() -> None:
    said = build.labels_of({key: value for key, value in BASED.items() if key != "BASE"})
    assert said["org.opencontainers.image.base.name"].startswith("docker.io/library/python:3.11.")
