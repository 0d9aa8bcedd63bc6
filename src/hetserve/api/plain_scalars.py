"""Scalars without quotes as kubectl reads them: YAML 1.1 as Go's library has it, neither PyYAML's nor YAML 1.2.

`5e-05` is a number, `014` and `0o14` are twelve, `yes` and `y` are true; `1:30`, dates and `=` are text. kubectl turns
YAML into JSON on the way, so `1.0` and `1e3` are whole numbers.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final

PLAIN: Final = "tag:hetserve.io,2026:plain"
"""Tag of a scalar without quotes: what it is depends on its text alone."""
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
_INT64: Final = 1 << 63


def plain_value(text: str) -> str | int | float | bool | None:
    """Value of a scalar that has neither quotes nor a tag: None, a truth value, a number or the text itself."""
    if text in _WORDS:
        value: bool | float | None = _WORDS[text]
        return value
    if text[0] not in _FIRST:
        return text
    digits = text.replace("_", "")
    whole = _WHOLE.fullmatch(digits)
    if whole is not None:
        base, found = next((b, d) for b, d in zip(_BASES, whole.groups()[1:], strict=True) if d is not None)
        # Few digits alone are converted: of a million of them, int() would make seconds of work.
        number = int(whole[1] + found, base) if len(found) <= 64 else _INT64
        if -_INT64 <= number < _INT64:
            return number
    if _DECIMAL.fullmatch(digits) is None:
        return text
    real = float(digits)
    if math.isinf(real):
        return text
    return int(real) if real.is_integer() and abs(real) < _INT64 else real
