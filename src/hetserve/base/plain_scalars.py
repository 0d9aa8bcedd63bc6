"""Reads unquoted scalars as kubectl does: YAML 1.1 of Go's library.

`5e-05` is a number, `014` and `0o14` are twelve, `yes` and `y` are true; `1:30`, dates and `=` are text; `1.0` and
`1e3` are integers.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

PLAIN: Final = "tag:hetserve.io,2026:plain"
"""Tag of an unquoted scalar."""
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FIRST: Final = frozenset("+-.0123456789")
_WHOLE: Final = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))", re.ASCII)
_BASES: Final = (16, 2, 8, 10)
_DECIMAL: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_STRAY: Final = re.compile(r"(?<![0-9])_|_(?![0-9])", re.ASCII)
"""A `_` not between digits; Go refuses it after a leading dot."""
_INT64: Final = 1 << 63
_UINT64: Final = 1 << 64


def plain_value(text: str) -> str | int | float | bool | None:
    """Value of an unquoted scalar: None, bool, number or text."""
    if text in _WORDS:
        value: bool | float | None = _WORDS[text]
        return value
    if text[0] not in _FIRST or (text[0] == "." and _STRAY.search(text)):
        return text
    digits = text.replace("_", "")
    number = _whole(digits)
    if number is not None:
        return number
    real = float(digits) if _DECIMAL.fullmatch(digits) else math.inf
    if math.isinf(real):
        return text
    return int(real) if real.is_integer() and abs(real) < _INT64 else real


def _whole(text: str) -> int | float | None:
    """A 64-bit integer; beyond 63 bits an unsigned float, as in Go."""
    found = _WHOLE.fullmatch(text)
    if found is None:
        return None
    base, digits = next((b, d.lstrip("0") or "0") for b, d in zip(_BASES, found.groups()[1:], strict=True) if d)
    # int() takes seconds for a million digits.
    number = int(found[1] + digits, base) if len(digits) <= 64 else _UINT64
    if -_INT64 <= number < _INT64:
        return number
    return float(number) if not found[1] and number < _UINT64 else None
