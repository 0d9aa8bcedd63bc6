"""Cuts a stream of bytes into lines."""

from __future__ import annotations

from collections.abc import Iterator


class LineTooLongError(ValueError):
    """A line has more bytes than are read."""


class LineCutter:
    """Lines of chunks as they come. largest: bytes of a line."""

    def __init__(self, largest: int) -> None:
        self._largest = largest
        self._begun: list[bytes] = []
        self._size = 0

    def cut(self, chunk: bytes) -> Iterator[bytes]:
        """Lines that end in this chunk, without their ends and empty ones. Raises LineTooLongError after them."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            if line := b"".join([*self._begun, end]):
                yield line
            self._begun, self._size = [], 0
        self._begun.append(rest)
        self._size += len(rest)
        if self._size > self._largest:
            raise LineTooLongError(f"a line has more than {self._largest:,} bytes")
