"""Blocks of code that occur more than once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from house.repeats import SHORTEST, Repeat, repeats
from house.source import Source
from house.tree import Tree

Written = Callable[[Mapping[str, str]], Tree]


def lines(*names: str) -> str:
    return "".join(f"{name}\n" for name in names)


def test_a_block_is_as_long_as_it_can_be(written: Written) -> None:
    tree = written({"src/a.py": lines("x", *"abcdefgh", "y"), "src/b.py": lines(*"abcdefgh", "z")})

    assert repeats(tree.sources) == [Repeat("src/a.py:2", "src/b.py:1", lines=8)]


def test_five_equal_lines_are_no_block(written: Written) -> None:
    tree = written({"src/a.py": lines(*"abcde", "x"), "src/b.py": lines(*"abcde", "y")})

    assert repeats(tree.sources) == []


def test_a_line_that_differs_parts_two_blocks(written: Written) -> None:
    tree = written({"src/a.py": lines(*"abcdef", "x", *"ghijklm"), "src/b.py": lines(*"abcdef", "y", *"ghijklm")})

    assert repeats(tree.sources) == [Repeat("src/a.py:8", "src/b.py:8", 7), Repeat("src/a.py:1", "src/b.py:1", 6)]


def test_a_block_in_three_places_makes_three_pairs(written: Written) -> None:
    tree = written({"src/a.py": lines(*"abcdef", "x", *"abcdef", "y"), "src/b.py": lines(*"abcdef")})

    assert {(repeat.first, repeat.second) for repeat in repeats(tree.sources)} == {
        ("src/a.py:1", "src/a.py:8"),
        ("src/a.py:1", "src/b.py:1"),
        ("src/a.py:8", "src/b.py:1"),
    }


def test_places_in_one_file_do_not_overlap(written: Written) -> None:
    tree = written({"src/a.py": lines(*"aaaaaaaaaaa")})

    assert repeats(tree.sources) == []


def test_prose_imports_blank_lines_indentation_and_punctuation_make_no_difference(written: Written) -> None:
    plain = "call(\n1,\n)\nb\nc\nd\ne\nf\n"
    adorned = (
        '"""Doc."""\nfrom os import (\n    path,\n)\ncall(\n    1,\n)\nb\n\n# note\nc  # why\nd\nimport os\ne\nf\n'
    )
    tree = written({"src/a.py": plain, "src/b.py": adorned})

    assert repeats(tree.sources) == [Repeat("src/a.py:1", "src/b.py:5", lines=7)]


def brute_force(texts: Sequence[str]) -> set[tuple[str, str, int]]:
    """Walks every diagonal of every pair of files."""
    found = set()
    for a, first in enumerate(texts):
        for b, second in enumerate(texts[a:], a):
            for shift in range(-len(first), len(second) + 1):
                if a == b and shift <= 0:
                    continue
                start = None
                for i in range(len(first) + 1):
                    j = i + shift
                    if i < len(first) and 0 <= j < len(second) and first[i] == second[j]:
                        start = i if start is None else start
                    elif start is not None:
                        length = min(i - start, shift) if a == b else i - start
                        if length >= SHORTEST:
                            found.add((f"src/{a}.py:{start + 1}", f"src/{b}.py:{start + shift + 1}", length))
                        start = None
    return found


@given(st.lists(st.text("ab", max_size=20), max_size=3))
def test_every_longest_pair_is_found_once(texts: list[str]) -> None:
    found = repeats(Source(f"src/{number}.py", lines(*text)) for number, text in enumerate(texts))

    triples = [(repeat.first, repeat.second, repeat.lines) for repeat in found]
    assert len(triples) == len(set(triples))
    assert set(triples) == brute_force(texts)
