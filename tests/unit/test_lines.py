"""A stream is cut into the same lines however it comes, and a line without an end is not kept for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.base.lines import LineCutter, LineTooLongError

TEXT = st.binary(max_size=60).map(lambda text: text.replace(b"x", b"\n"))


@given(st.lists(TEXT, max_size=8))
def test_chunks_make_no_difference(chunks: list[bytes]) -> None:
    cutter, whole = LineCutter(10_000), b"".join(chunks)
    found = [line for chunk in [*chunks, b"\n"] for line in cutter.cut(chunk)]
    assert found == [line for line in whole.split(b"\n") if line]


def test_a_line_that_is_too_long_is_refused_after_those_before_it() -> None:
    cutter = LineCutter(5)
    lines = cutter.cut(b"a\nbc\n123456")
    assert [next(lines), next(lines)] == [b"a", b"bc"]
    with pytest.raises(LineTooLongError, match="a line has more than 5 bytes"):
        next(lines)


def test_a_line_grows_over_chunks() -> None:
    cutter = LineCutter(5)
    assert list(cutter.cut(b"123")) == []
    with pytest.raises(LineTooLongError):
        list(cutter.cut(b"456"))
