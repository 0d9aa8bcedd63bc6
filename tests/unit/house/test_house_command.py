"""What `python -m house` prints."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from house.__main__ import main
from house.tree import Tree

Written = Callable[[Mapping[str, str]], Tree]
AFTER = {
    "src/p/__init__.py": "",
    "src/p/a.py": '"""One two."""\nimport p.b\n\nclass Outcome: ...\n',
    "src/p/b.py": "import p.a\n\nclass Outcome: ...\n",
    "docs/a.md": "a few words",
}


@pytest.fixture
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("before")
    (folder / "src").mkdir()
    (folder / "src" / "a.py").write_text("a = 1\n")
    return folder


def cells(table: str) -> dict[str, list[str]]:
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if "|" in line)
    return {label: values for label, *values in rows}


def test_the_table_has_a_column_for_each_tree(
    written: Written, before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(written(AFTER).folder), "--before", str(before)]) == 0

    out = capsys.readouterr().out
    rows = cells(out)
    assert rows["lines of Python in src"] == ["1 in 1 files", "7 in 3 files"]
    assert rows["fullest folders of the product, in modules"] == ["src 1", "p 3"]
    assert rows["import circles"] == ["0, with 0 modules", "1, with 2 modules"]
    assert rows["words of docstrings and comments per 100 lines of code"] == ["0", "50"]
    assert rows["words in docs/*.md"] == ["0 in 0 pages, longest 0", "3 in 1 pages, longest 3"]
    assert rows["class names that are defined more than once"] == ["0", "1"]
    assert "p.a <-> p.b" in out
    assert "Outcome: p.a, p.b" in out


def test_a_list_is_cut_and_says_how_much_is_missing(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    tree = written({f"src/p{number}/a.py": "" for number in range(4)})

    main([str(tree.folder), "--before", "none", "--most", "1"])

    assert "Fullest folders (4)\n  1 src/p0\n  and 3 more\n" in capsys.readouterr().out


def test_json_holds_every_measure_of_each_tree(
    written: Written, before: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main([str(written(AFTER).folder), "--before", str(before), "--json"])

    houses = json.loads(capsys.readouterr().out)
    assert [house["sizes"]["src"] for house in houses.values()] == [{"files": 1, "lines": 1}, {"files": 3, "lines": 7}]
    assert houses["now"]["circles"] == [["p.a", "p.b"]]
    assert houses["now"]["shared_class_names"] == {"Outcome": ["p.a", "p.b"]}


def test_files_lists_what_names_a_member(written: Written, capsys: pytest.CaptureFixture[str]) -> None:
    tree = written({"src/p/homogeneous.py": "", "benchmarks/b.py": "plan('homogeneous')"})

    main([str(tree.folder), "--before", "none", "--files"])

    out = capsys.readouterr().out
    assert "A planner: by hand (1)\n  src/p/homogeneous.py\n" in out
    assert "A planner: users (1)\n  benchmarks/b.py\n" in out


@pytest.mark.parametrize("text", ["def f(:\n", "x = '''\n"])
def test_a_file_that_is_no_python_is_named(written: Written, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    tree = written({"src/p/broken.py": text})

    with pytest.raises(SystemExit) as ended:
        main([str(tree.folder), "--before", "none"])

    assert ended.value.code == 2
    assert "src/p/broken.py" in capsys.readouterr().err


def test_an_unknown_revision_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--before", "no-such-revision"])

    assert ended.value.code == 2
    assert "no-such-revision" in capsys.readouterr().err
