"""Reads what users name: a file, a pipe or standard input, up to a limit."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO, BinaryIO, Final

_CHUNK: Final = 1 << 20
_MEBIBYTE: Final = 1 << 20
WRITER_WITHIN: Final = 10.0
"""Seconds within which a writer must open a named pipe."""


class InputError(Exception):
    """What a user gave cannot be used. errors: a line each."""

    def __init__(self, errors: Sequence[str]) -> None:
        super().__init__("\n".join(errors))
        self.errors = tuple(errors)


class UnreadableError(InputError):
    def __init__(self, name: str, why: str) -> None:
        super().__init__([f"{shown_name(name)}: cannot be read: {why}"])


def shown_name(name: str) -> str:
    return "stdin" if name == "-" else name


def read_text(name: str, most: int, stdin: IO[str] | None = None) -> str:
    """Text (UTF-8) of a file or, for `-`, of `stdin`; most: bytes.

    Raises UnreadableError, also for a device and for more bytes.
    """
    if name == "-" and stdin is not None:
        return stdin.read()
    try:
        return read_bytes(name, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UnreadableError(name, "it is not UTF-8 text") from None


def read_lines(name: str, most: int) -> IO[str]:
    """As lines; UnicodeDecodeError comes at the line that is no UTF-8."""
    return io.TextIOWrapper(io.BytesIO(read_bytes(name, most)), encoding="utf-8-sig", newline="")


def read_bytes(name: str, most: int) -> bytes:
    """Bytes of a file or, for `-`, of standard input. Raises UnreadableError."""
    try:
        if name == "-":
            if sys.stdin is None:  # Python without standard input
                raise UnreadableError(name, "it is closed")
            return _up_to(sys.stdin.buffer, name, most)
        kind = Path(name).stat().st_mode
        if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
            raise UnreadableError(name, "it is a device; give a file, or - for standard input")
        if stat.S_ISFIFO(kind):
            return _of_pipe(name, most)
        check_file(name, most)
        with Path(name).open("rb") as file:
            return _up_to(file, name, most)
    except OSError as error:
        raise UnreadableError(name, error.strerror or str(error)) from None


def check_file(name: str, most: int) -> None:
    """Raises UnreadableError for what is no file of at most `most` bytes."""
    try:
        found = Path(name).stat()
    except OSError:
        return
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise UnreadableError(name, "it is no file")
    if found.st_size > most:
        raise UnreadableError(name, _too_large(most))


def _too_large(most: int) -> str:
    return f"it is larger than the {most / _MEBIBYTE:g} MiB that are read of such an input"


def _of_pipe(name: str, most: int) -> bytes:
    """Bytes of a named pipe, without waiting for its writer for ever."""
    with os.fdopen(os.open(name, os.O_RDONLY | os.O_NONBLOCK), "rb", buffering=0) as pipe:
        begun = select.select([pipe], [], [], WRITER_WITHIN)[0]
        first = pipe.read(_CHUNK)  # None: a writer, but nothing written yet
        if first == b"" and not begun:
            raise UnreadableError(name, f"nobody has written to this pipe within {WRITER_WITHIN:g} s")
        os.set_blocking(pipe.fileno(), True)
        return _up_to(pipe, name, most, first or b"") if first != b"" else b""


def _up_to(file: BinaryIO, name: str, most: int, first: bytes = b"") -> bytes:
    found = bytearray(first)
    while len(found) <= most and (more := file.read(min(_CHUNK, most + 1 - len(found)))):
        found += more
    if len(found) > most:
        raise UnreadableError(name, _too_large(most))
    return bytes(found)
