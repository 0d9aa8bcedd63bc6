"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """In the file at `path`, `before` (which stands there once) becomes `after`; `test` of `file` must then fail."""

    name: str
    path: str
    before: str
    after: str
    file: str
    test: str

    @property
    def node(self) -> str:
        return f"{self.file}::{self.test}"
