"""What `make house` counts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import house
from house import main, measure

FILES = {
    "src/p/__init__.py": "",
    "src/p/a.py": "from p.b import Outcome\n\nclass Small: ...\n",
    "src/p/b.py": "class Outcome: ...\n",
    "operator/q/a.py": "class Outcome: ...\nKIND = 'InstanceType'\n",
    "tests/a.py": "KIND = 'InstanceType'\n",
    "docs/a.md": "a few words\n",
}


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for path, text in FILES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.setattr(house, "ROOT", tmp_path)
    return tmp_path


def test_a_tree_is_measured(tree: Path) -> None:
    found = measure(tree)
    assert (found["lines of the product"], found["lines in tests"], found["words in docs"]) == (6, 1, 3)
    assert found["modules of under 70 lines with one importer"] == ["src/p/b.py"]
    assert found["class names with two meanings"] == ["Outcome: src/p/b.py, operator/q/a.py"]
    assert found["files that name a kind by hand"] == ["operator/q/a.py"]


def test_an_earlier_revision_stands_beside(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "a"]):
        subprocess.run(["git", *arguments], cwd=tree, check=True)
    (tree / "src/p/b.py").unlink()
    assert main(["--before", "HEAD"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("lines of the product"))
    assert line.split()[-2:] == ["6", "5"]


def test_an_unknown_revision_is_an_error(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--before", "no-such-revision"])
    assert "git" in capsys.readouterr().err
