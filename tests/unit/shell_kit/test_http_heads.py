"""Heads of HTTP/2 as the library hpack writes and reads them."""

from __future__ import annotations

import pytest
from hpack import Decoder, Encoder, HPACKError
from hypothesis import example, given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve_shell.http.frames import CONTENT, END_HEADERS, BrokenError, ErrorCode, Frames
from hetserve_shell.http.framing import REMEMBERED, FieldDecoder, Heads, head_frames, plain_block

LIMIT = 4096
GET = ((b":method", b"GET"), (b":path", b"/"))

names = st.from_regex(rb"[a-z-]{1,20}", fullmatch=True) | st.sampled_from([b"te", b"user-agent", b"grpc-timeout"])
values = st.from_regex(rb"[ -~]{0,60}", fullmatch=True)
fields = st.lists(st.tuples(names, values), max_size=6)


def read(heads: Heads, block: bytes) -> list[tuple[bytes, bytes]]:
    found = heads.add(END_HEADERS, 1, block)
    assert found is not None
    return [*found[0].pseudo.items(), *found[0].headers]


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(fields, st.booleans(), st.sampled_from([None, 0, 60, 4096])), max_size=8), st.booleans())
def test_what_the_library_writes_is_read_whatever_table_it_keeps(
    asked: list[tuple[list[tuple[bytes, bytes]], bool, int | None]], twice: bool
) -> None:
    encoder, heads = Encoder(), Heads(LIMIT)
    for plain, is_coded, size in asked:
        if size is not None:
            encoder.header_table_size = size
        for _ in range(1 + twice):
            assert read(heads, encoder.encode([*GET, *plain], huffman=is_coded)) == [*GET, *plain]


def piece(kind: int, low: int, rest: bytes) -> bytes:
    return bytes((kind | low,)) + rest


blocks = st.lists(
    st.binary(max_size=12)
    | st.builds(piece, st.sampled_from([0x80, 0x40, 0x20, 0x10, 0]), st.integers(0, 15), st.binary(max_size=6))
    | st.builds(lambda plain: Encoder().encode(plain), fields),
    max_size=6,
).map(b"".join)


def table_of(decoder: FieldDecoder) -> tuple[int, list[object]]:
    table = decoder._decoder.header_table
    return table.maxsize, list(table.dynamic_entries)


@settings(max_examples=examples(300))
@given(st.lists(blocks, min_size=1, max_size=4), st.sampled_from([40, 4096]))
@example([b"\x3f\xe1\x1f"], 4096)
@example([b"\x20\x82"], 4096)
@example([b"\x82\x20"], 4096)
@example([b"\x40\x01x\x01y\xbe", b"\xbe"], 4096)
@example([b"\x40\x01x\x01y", b"\x40\x01x\x01z"], 40)
def test_any_bytes_are_read_as_the_library_reads_them_or_refused_as_by_it(given_blocks: list[bytes], room: int) -> None:
    """Of both sides each goes on with its own table, which has so much room, until one refuses."""
    library, decoder = Decoder(LIMIT), FieldDecoder(LIMIT, room)
    library.max_allowed_table_size = library.header_table_size = room
    for block in given_blocks:
        try:
            expected = [(bytes(name), bytes(value)) for name, value in library.decode(block, raw=True)]
        except (HPACKError, IndexError):
            with pytest.raises(BrokenError):
                decoder.decode(block)
            return
        before = table_of(decoder)
        assert decoder.decode(block) == expected
        assert decoder.is_changed or table_of(decoder) == before, "a head would be looked up that means another one"


def test_a_head_is_looked_up_only_while_the_table_says_the_same() -> None:
    heads, encoder = Heads(LIMIT), Encoder()
    first = encoder.encode([*GET, (b"x", b"1")])
    known = encoder.encode([*GET, (b"x", b"1")])
    assert len(known) < len(first)
    read(heads, first)
    assert heads.add(END_HEADERS, 3, known) is not None
    before, again = heads.add(END_HEADERS, 5, known), heads.add(END_HEADERS, 7, known)
    assert before is not None
    assert again is not None
    assert before[0] is again[0]
    read(heads, encoder.encode([*GET, (b"x", b"2")]))  # the same index says something else now
    assert read(heads, known) == [*GET, (b"x", b"2")]


def test_of_very_many_heads_few_are_kept() -> None:
    heads, encoder = Heads(LIMIT), Encoder()
    for number in range(3 * REMEMBERED):
        block = encoder.encode([(b":path", b"/%d" % number, True)])  # never in the table
        assert read(heads, block) == [(b":path", b"/%d" % number)]
    assert len(heads._known) == REMEMBERED


@pytest.mark.parametrize(
    "plain",
    [
        pytest.param([(b"x", b"y"), (b":method", b"GET")], id="a pseudo-field behind others"),
        pytest.param([(b":method", b"GET"), (b":method", b"PUT")], id="twice"),
        pytest.param([(b":who", b"me")], id="unknown"),
        pytest.param([(b"X", b"y")], id="a large letter"),
        pytest.param([(b"x y", b"z")], id="a blank in a name"),
        pytest.param([(b"x\ny", b"z")], id="a line end in a name"),
        pytest.param([(b"", b"z")], id="no name"),
        pytest.param([(b"x", b"y\nz: 1")], id="a line end in a value"),
        pytest.param([(b"x", b"y\r")], id="a return in a value"),
        pytest.param([(b":path", b"/\0")], id="a nul in a path"),
        pytest.param([(b"x", b"a\x01b")], id="a control character"),
        pytest.param([(b"x", b"a\x7f")], id="a delete"),
        pytest.param([(b"content-length", b"1"), (b"content-length", b"2")], id="two lengths"),
    ],
)
def test_what_could_be_taken_for_something_else_is_refused(plain: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(BrokenError):
        Heads(LIMIT).add(END_HEADERS, 1, plain_block(plain))


def test_the_authority_is_the_host() -> None:
    found = Heads(LIMIT).add(END_HEADERS, 1, plain_block([(b":authority", b"a"), (b"x", b"1"), (b"host", b"b")]))
    assert found is not None
    assert found[0].headers == [(b"host", b"a"), (b"x", b"1")]
    assert found[0].firsts == {b"host": b"a", b"x": b"1"}


@pytest.mark.parametrize("plain", [[(b"x", b"y" * 5000)], [(b"x", b"y")] * 200])
def test_a_head_that_is_too_large_is_refused(plain: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(BrokenError) as refused:
        Heads(LIMIT).add(END_HEADERS, 1, Encoder().encode(plain, huffman=False))
    assert refused.value.code is ErrorCode.ENHANCE_YOUR_CALM


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("size", [0, 100, CONTENT, 3 * CONTENT])
def test_a_head_of_any_size_goes_in_whole_frames(size: int, ends: bool) -> None:
    plain = [(b":path", b"/"), (b"x", b"y" * size)]
    frames, heads, found = Frames(), Heads(1 << 20), None
    frames.feed(head_frames(1, plain, ends=ends))
    while (frame := frames.take()) is not None:
        assert found is None
        assert len(frame[3]) <= CONTENT
        found = heads.add(frame[1], frame[2], frame[3])
    assert found is not None
    assert (found[0].firsts, found[1]) == ({b"x": b"y" * size}, ends)
