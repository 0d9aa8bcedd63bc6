"""What a planted bug is."""

from __future__ import annotations

from dataclasses import dataclass

from mutants.changes import Change


@dataclass(frozen=True, slots=True)
class Mutant:
    """`change` is made once in a function or class of a module; `test` of `file` must then fail."""

    name: str
    module: str
    function: str
    change: Change
    file: str
    test: str

    @property
    def node(self) -> str:
        return f"{self.file}::{self.test}"
