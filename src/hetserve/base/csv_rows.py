"""Checked numbers from a CSV file; errors name file, line, column and value."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hetserve.base.files import InputError, read_lines
from hetserve.base.units import number_or_nan

_MOST_ERRORS = 20
MOST_BYTES = 16 << 20


class CsvError(InputError):
    """What is wrong in a CSV file."""


@dataclass(frozen=True, slots=True)
class CsvRow:
    """line: number in the file, from 1."""

    line: int
    values: dict[str, str]


@dataclass(frozen=True, slots=True)
class CsvRows:
    """Rows of one file, and errors of their values; `done` raises them. columns: in small letters, and as written."""

    name: str
    columns: Mapping[str, str]
    rows: tuple[CsvRow, ...]
    errors: list[str] = field(default_factory=list)

    def whole(self, row: CsvRow, column: str, most: int) -> int:
        """Whole number from 1 to `most`, also written as 1.0; else 0 and an error."""
        text = row.values[column]
        number = number_or_nan(text)
        if 1 <= number <= most and number.is_integer():
            return int(number)
        return self.wrong(row, column, f"must be a whole number from 1 to {most}")

    def positive(self, row: CsvRow, column: str, least: float, most: float, unit: str) -> float:
        """Number from `least` to `most`; else 0 and an error."""
        text = row.values[column]
        number = number_or_nan(text)
        if least <= number <= most:
            return number
        return self.wrong(row, column, f"must be a number from {least:g} to {most:.10g} {unit}".rstrip())

    def wrong(self, row: CsvRow, column: str, right: str) -> int:
        """Records an error of a value; right: what would be."""
        text = row.values[column]
        named = self.columns.get(column, column)
        what = f"{named} {text[:40]!r}" if text else f"{named} is empty"
        self.errors.append(f"{self.name}, line {row.line}: {what}: {right}")
        return 0

    def done(self) -> None:
        """Raises CsvError with the first twenty errors."""
        if len(self.errors) > _MOST_ERRORS:
            raise CsvError([*self.errors[:_MOST_ERRORS], f"{self.name}: and {len(self.errors) - _MOST_ERRORS} more"])
        if self.errors:
            raise CsvError(self.errors)


def read_rows(text: str, name: str, needed: Sequence[str]) -> CsvRows:
    """Rows of a CSV text; the first line names the columns, in either case; blank lines are skipped.

    name: for errors. needed: required columns. Raises CsvError for a text without rows or header, a missing or repeated
    column, or a line of another length.
    """
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    rows: list[CsvRow] = []
    errors: list[str] = []
    header: tuple[str, ...] = ()
    written: list[str] = []
    try:
        for values in reader:
            cells = [value.strip() for value in values]
            if not any(cells):
                continue
            if not header:
                header, written = tuple(cell.lower() for cell in cells), cells
                continue
            if len(cells) != len(header):
                counts = f"{len(cells)} values for {len(header)} columns ({', '.join(header)})"
                errors.append(f"{name}, line {reader.line_num}: {counts}")
                continue
            rows.append(CsvRow(reader.line_num, dict(zip(header, cells, strict=True))))
    except csv.Error as error:
        raise CsvError([f"{name}, line {reader.line_num}: not valid CSV: {error}"]) from None
    columns = dict(zip(header, written, strict=True))
    _check_header(header, columns, name, needed)
    if not rows and not errors:
        raise CsvError([f"{name}: there is no line below the header"])
    return CsvRows(name, columns, tuple(rows), errors)


def _check_header(header: Sequence[str], written: Mapping[str, str], name: str, needed: Sequence[str]) -> None:
    if not header:
        raise CsvError([f"{name}: is empty; its first line must name the columns {', '.join(needed)}"])
    there = f"there are: {', '.join(written.values())}"
    missing = [f"{name}, line 1: no column {column}; {there}" for column in needed if column not in header]
    twice = sorted({column for column in header if header.count(column) > 1})
    repeated = [f"{name}, line 1: column {column} is there {header.count(column)} times" for column in twice]
    if missing or repeated:
        raise CsvError([*missing, *repeated])


Cell = tuple[str, str | None]
"""Column as the header has it, and text; None: the line is too short."""


def read_columns(
    path: Path, most: int, wanted: Sequence[str], *more: Sequence[str], bare: bool = False
) -> Iterator[tuple[str, list[Cell]]]:
    """Lines of a large file: the place of each, for errors, and its cells in the wanted column and in more.

    most: bytes. wanted, more: names of a column, of which the first that the header has counts, in either case; of
    `more`, columns may be missing. bare: numbers without a header are of the wanted column. Raises ValueError without
    the wanted one, or for what is no CSV; UnreadableError.
    """
    with read_lines(str(path), most) as file:
        rows = csv.DictReader(file)
        try:
            rows.fieldnames = columns = [name.strip().lower() for name in rows.fieldnames or []]
            if bare and len(columns) == 1 and math.isfinite(number_or_nan(columns[0])):
                yield f"{path}, line {rows.line_num}", [(wanted[0], columns[0])]
                rows.fieldnames = columns = [wanted[0]]
            found = [next((name for name in names if name in columns), None) for names in (wanted, *more)]
            if found[0] is None:
                raise ValueError(f"{path}: no column `{wanted[0]}`; columns are: {', '.join(columns) or 'none'}")
            for row in rows:
                yield f"{path}, line {rows.line_num}", [(name, row[name]) for name in found if name is not None]
        except csv.Error as error:
            raise ValueError(f"{path}: {error}") from None
