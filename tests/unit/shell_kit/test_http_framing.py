"""One side of HTTP/2 by the frame: what breaks the protocol is told by the code that RFC 9113 has for it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hpack import Decoder
from hyperframe.frame import Frame
from hypothesis import given
from hypothesis import strategies as st

from hetserve_shell.http import frames
from hetserve_shell.http.frames import CONTENT, HEADER, BrokenError, ErrorCode, Frames, frame
from hetserve_shell.http.framing import DEFAULT, INITIAL_WINDOW_SIZE, WIDEST, Framing, HeadFields, Heads, plain_block

GOOD = plain_block([(b":method", b"GET"), (b":path", b"/")])


@dataclass
class Listener:
    """Notes what it hears."""

    heard: list[tuple[object, ...]] = field(default_factory=list)

    def on_head(self, stream: int, head: HeadFields, *, ends: bool) -> bool:
        self.heard.append(("head", stream, head.pseudo[b":path"], ends))
        return True

    def on_data(self, stream: int, piece: bytes, taken: int, *, ends: bool) -> bool:
        self.heard.append(("data", stream, piece, taken, ends))
        return bool(piece)

    def on_reset(self, stream: int, code: int) -> None:
        self.heard.append(("reset", stream, code))

    def on_room(self, stream: int, more: int) -> None:
        self.heard.append(("room", stream, more))

    def on_goaway(self, last: int, code: int) -> None:
        self.heard.append(("goaway", last, code))


def side(listener: Listener) -> Framing:
    made = Framing(listener, b"", Heads(1000), {}, 2 * DEFAULT)
    made.take()
    return made


def setting(number: int, value: int) -> bytes:
    return number.to_bytes(2, "big") + value.to_bytes(4, "big")


BROKEN = {
    "data of no stream": ([(frames.DATA, 0, 0, b"x")], ErrorCode.PROTOCOL_ERROR),
    "a head of no stream": ([(frames.HEADERS, 4, 0, GOOD)], ErrorCode.PROTOCOL_ERROR),
    "settings of a stream": ([(frames.SETTINGS, 0, 1, b"")], ErrorCode.PROTOCOL_ERROR),
    "a ping of a stream": ([(frames.PING, 0, 1, bytes(8))], ErrorCode.PROTOCOL_ERROR),
    "a goaway of a stream": ([(frames.GOAWAY, 0, 1, bytes(8))], ErrorCode.PROTOCOL_ERROR),
    "a push": ([(frames.PUSH_PROMISE, 4, 1, bytes(8))], ErrorCode.PROTOCOL_ERROR),
    "half a setting": ([(frames.SETTINGS, 0, 0, bytes(5))], ErrorCode.FRAME_SIZE_ERROR),
    "a short ping": ([(frames.PING, 0, 0, bytes(7))], ErrorCode.FRAME_SIZE_ERROR),
    "a short reset": ([(frames.RST_STREAM, 0, 1, bytes(3))], ErrorCode.FRAME_SIZE_ERROR),
    "a short window": ([(frames.WINDOW_UPDATE, 0, 1, bytes(3))], ErrorCode.FRAME_SIZE_ERROR),
    "a short goaway": ([(frames.GOAWAY, 0, 0, bytes(5))], ErrorCode.FRAME_SIZE_ERROR),
    "a window of nothing": ([(frames.WINDOW_UPDATE, 0, 1, bytes(4))], ErrorCode.FLOW_CONTROL_ERROR),
    "a window beyond all": ([(frames.WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff")], ErrorCode.FLOW_CONTROL_ERROR),
    "windows beyond all": (
        [(frames.SETTINGS, 0, 0, setting(INITIAL_WINDOW_SIZE, WIDEST + 1))],
        ErrorCode.FLOW_CONTROL_ERROR,
    ),
    "only padding, and too much": ([(frames.DATA, 8, 1, b"\5xxxx")], ErrorCode.PROTOCOL_ERROR),
    "padding of nothing": ([(frames.HEADERS, 12, 1, b"")], ErrorCode.PROTOCOL_ERROR),
    "the rest of no head": ([(frames.CONTINUATION, 4, 1, GOOD)], ErrorCode.PROTOCOL_ERROR),
    "data within a head": ([(frames.HEADERS, 0, 1, GOOD), (frames.DATA, 0, 1, b"x")], ErrorCode.PROTOCOL_ERROR),
    "the rest of another head": (
        [(frames.HEADERS, 0, 1, GOOD), (frames.CONTINUATION, 4, 3, b"")],
        ErrorCode.PROTOCOL_ERROR,
    ),
    "nonsense as a head": ([(frames.HEADERS, 4, 1, b"\xff\xff\xff")], ErrorCode.COMPRESSION_ERROR),
    "a head in crumbs": (
        [(frames.HEADERS, 0, 1, b""), *[(frames.CONTINUATION, 0, 1, b"\x82")] * 101],
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "a head too large": ([(frames.HEADERS, 0, 1, bytes(1001))], ErrorCode.ENHANCE_YOUR_CALM),
}


@pytest.mark.parametrize(("told", "code"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_the_protocol_is_refused_by_its_code(told: list[frames.Frame], code: ErrorCode) -> None:
    *before, last = told
    framing = side(Listener())
    for each in before:
        framing.hear(*each)
    with pytest.raises(BrokenError) as refused:
        framing.hear(*last)
    assert refused.value.code is code


def test_what_nobody_needs_to_hear_of_is_answered_or_passed_over() -> None:
    listener = Listener()
    framing = side(listener)
    for kind, flags, stream, content in (
        (frames.PRIORITY, 0, 3, bytes(5)),
        (99, 0, 1, b"what nobody knows"),
        (frames.SETTINGS, 1, 0, b""),
        (frames.PING, 1, 0, bytes(8)),
    ):
        assert not framing.hear(kind, flags, stream, content)
    assert (framing.queued, listener.heard) == (0, [])
    framing.hear(frames.PING, 0, 0, b"12345678")
    framing.hear(frames.SETTINGS, 0, 0, setting(3, 7) + setting(INITIAL_WINDOW_SIZE, 5))
    assert framing.take() == frame(frames.PING, 1, 0, b"12345678") + frame(frames.SETTINGS, 1, 0)
    assert (framing.first_room, listener.heard) == (5, [("room", 0, 0)])


def test_a_peer_with_a_smaller_table_hears_that_our_heads_use_none() -> None:
    decoder, framing = Decoder(), side(Listener())
    framing.hear(frames.SETTINGS, 0, 0, setting(1, 0))
    framing.hear(frames.SETTINGS, 0, 0, setting(1, 100) + setting(1, 50))
    framing.take()
    decoder.max_allowed_table_size = 0
    for _ in range(2):
        framing.say_head(1, [(b":status", b"200")], ends=True)
        assert list(decoder.decode(framing.take()[frames.HEADER :], raw=True)) == [(b":status", b"200")]


def test_windows_open_again_once_half_of_them_has_come_with_padding() -> None:
    listener = Listener()
    framing = side(listener)
    for _ in range(3):
        framing.hear(frames.DATA, 8, 1, b"\x00" + bytes(CONTENT - 1))
        assert not framing.queued
    framing.hear(frames.DATA, 8, 1, b"\xff" + bytes(CONTENT - 1))
    assert framing.take() == frame(frames.WINDOW_UPDATE, 0, 0, (4 * CONTENT).to_bytes(4, "big"))
    assert {taken for _, _, _, taken, _ in listener.heard} == {CONTENT}


kinds = st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, WIDEST), st.binary(max_size=40))


@given(st.lists(kinds, max_size=6), st.lists(st.integers(1, 60), max_size=8))
def test_frames_are_cut_the_same_however_they_come(told: list[frames.Frame], cuts: list[int]) -> None:
    data, cutter, found = b"".join(frame(*each) for each in told), Frames(), list[frames.Frame]()
    for cut in [*cuts, len(data)]:
        cutter.feed(data[:cut])
        data = data[cut:]
        while (one := cutter.take()) is not None:
            found.append(one)
        assert not cutter.left
    cutter.feed(data)
    while (one := cutter.take()) is not None:
        found.append(one)
    assert (found, cutter.unfinished) == (told, False)


def test_a_frame_is_refused_before_it_is_whole_where_it_is_too_large() -> None:
    cutter = Frames()
    cutter.feed((CONTENT + 1).to_bytes(3, "big") + bytes(HEADER - 3))
    with pytest.raises(BrokenError) as refused:
        cutter.take()
    assert refused.value.code is ErrorCode.FRAME_SIZE_ERROR


def test_what_is_said_is_what_the_library_reads() -> None:
    framing = Framing(Listener(), b"", Heads(1000), {INITIAL_WINDOW_SIZE: 7}, 2 * DEFAULT)
    framing.say_head(1, [(b"x", b"y")], ends=False)
    framing.say_data(1, b"abc", ends=True)
    framing.say_reset(3, ErrorCode.CANCEL)
    framing.say_goaway(5, ErrorCode.NO_ERROR)
    said, found = memoryview(framing.take()), []
    while said:
        one, size = Frame.parse_frame_header(said[:HEADER])
        one.parse_body(said[HEADER : HEADER + size])
        found.append(one)
        said = said[HEADER + size :]
    names = [type(one).__name__ for one in found]
    assert names == [
        *("SettingsFrame", "WindowUpdateFrame", "HeadersFrame", "DataFrame"),
        *("RstStreamFrame", "GoAwayFrame"),
    ]
    assert (found[3].data, sorted(found[3].flags), found[4].error_code, found[5].last_stream_id) == (  # type: ignore[attr-defined]
        b"abc",
        ["END_STREAM"],
        8,
        5,
    )
