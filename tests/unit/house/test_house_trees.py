"""Which files a tree has, from a folder and from a revision."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from house.sizes import Size, Spread, folders, function_lines, module_lines, size_of
from house.tree import RevisionError, Tree, is_ancestor, opened

Written = Callable[[Mapping[str, str]], Tree]


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=n", "-c", "user.email=e@example.com", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", folder, *who, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Two commits, then a change that is not committed."""
    git(tmp_path, "init", "--quiet")
    (tmp_path / "src").mkdir()
    for text in ("one = 1\n", "one = 1\ntwo = 2\n"):
        (tmp_path / "src" / "a.py").write_text(text)
        git(tmp_path, "add", "--all")
        git(tmp_path, "commit", "--quiet", "--message", text)
    (tmp_path / "src" / "a.py").write_text("changed = 3\n")
    return tmp_path


def test_a_revision_is_read_without_changing_the_checkout(checkout: Path) -> None:
    first = git(checkout, "rev-parse", "HEAD~1")

    with opened(first, checkout) as tree:
        assert [(source.path, source.text) for source in tree.sources] == [("src/a.py", "one = 1\n")]
        assert tree.folder != checkout

    assert not tree.folder.exists()
    assert (checkout / "src" / "a.py").read_text() == "changed = 3\n"
    assert git(checkout, "status", "--porcelain").split() == ["M", "src/a.py"]


def test_a_folder_is_read_as_it_is(checkout: Path) -> None:
    with opened(str(checkout), checkout) as tree:
        assert [source.text for source in tree.sources] == ["changed = 3\n"]

    assert checkout.exists()


def test_an_unknown_revision_is_refused(checkout: Path) -> None:
    with pytest.raises(RevisionError, match="nowhere"), opened("nowhere", checkout):
        pass


def test_the_history_holds_only_ancestors(checkout: Path) -> None:
    second = git(checkout, "rev-parse", "HEAD")
    git(checkout, "reset", "--quiet", "--hard", "HEAD~1")

    assert is_ancestor("HEAD", checkout)
    assert not is_ancestor(second, checkout)
    assert not is_ancestor("nowhere", checkout)


def test_hidden_files_build_outputs_and_python_outside_the_roots_are_left_out(written: Written) -> None:
    tree = written(
        {
            ".venv/a.py": "",
            "src/.cache/a.py": "",
            "src/__pycache__/a.py": "",
            "dist/a.txt": "",
            "conftest.py": "",
            "docs/a.md": "",
            "src/a.py": "",
            "tests/a.py": "",
        }
    )

    assert tree.files == ("conftest.py", "docs/a.md", "src/a.py", "tests/a.py")
    assert [source.path for source in tree.sources] == ["src/a.py", "tests/a.py"]
    assert [source.path for source in tree.product] == ["src/a.py"]


def test_modules_count_in_the_folder_that_they_lie_in(written: Written) -> None:
    tree = written({"src/p/a.py": "1\n2\n", "src/p/q/b.py": "3\n", "src/p/q/c.py": "4\n"})

    assert folders(tree.product) == {"src/p/q": 2, "src/p": 1}
    assert size_of(tree.product) == Size(files=3, lines=4)
    assert module_lines(tree.product) == Spread(median=1, p90=2, greatest=2)


def test_a_function_is_as_long_as_from_def_to_its_last_line(written: Written) -> None:
    text = """
        class A:
            @property
            def short(self): return 1

            async def long(self):
                def inner():
                    pass

                return inner
    """
    tree = written({"src/a.py": text})

    assert function_lines(tree.product) == Spread(median=2, p90=5, greatest=5)
    assert function_lines(()) == Spread(0, 0, 0)
