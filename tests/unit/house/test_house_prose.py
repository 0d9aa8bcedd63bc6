"""What is code and what is prose."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from house.prose import Page, Prose, pages_of, prose_of, words_in
from house.tree import Tree

Written = Callable[[Mapping[str, str]], Tree]
MODULE = '''\
"""Two words."""

import os  # noqa: F401

LIMIT = 3  # seconds, at most
"""The limit."""


class A:
    """A class
    on two lines."""

    # not code
    def f(self):
        return """
text that is code

# and no comment"""
'''


def test_lines_of_code_hold_no_prose(written: Written) -> None:
    (source,) = written({"src/a.py": MODULE}).sources

    assert source.code == {
        3: "import os",
        5: "LIMIT = 3",
        9: "class A:",
        14: "def f(self):",
        15: 'return """',
        16: "text that is code",
        18: '# and no comment"""',
    }


def test_docstrings_and_comments_are_prose_and_comments_for_tools_are_not(written: Written) -> None:
    tree = written({"src/a.py": MODULE, "src/b.py": "def f():\n    '''One.'''\n"})

    prose = prose_of(tree.sources)

    assert prose == Prose(words=2 + 3 + 2 + 5 + 2 + 1, code_lines=7 + 1)
    assert prose.per_hundred_lines == 187.5
    assert prose_of(()).per_hundred_lines == 0


def test_a_word_has_a_letter_or_a_digit() -> None:
    assert words_in("| a | `b-c` -- 2 %\n\n# d") == 4


def test_pages_are_the_markdown_files_of_one_folder(written: Written) -> None:
    tree = written({"docs/a.md": "one", "docs/b.md": "one two", "docs/c.json": "{}", "docs/more/d.md": "no"})

    assert pages_of(tree.folder / "docs") == (Page("b.md", 2), Page("a.md", 1))
    assert pages_of(tree.folder / "nowhere") == ()
