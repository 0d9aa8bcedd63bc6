"""What a text without quotes is; tests/integration/test_manifests_read_as_kubectl_does.py asks kubectl the same."""

from __future__ import annotations

from typing import Any

import pytest

from hetserve.base.plain_scalars import plain_value

INF = float("inf")
VALUES: dict[str, Any] = {
    # Numbers as JSON writers, Go and people print them.
    "5e-05": 5e-05,
    "5E-05": 5e-05,
    "1e3": 1000,
    "1E5": 100_000,
    "1e+3": 1000,
    "1e-7": 1e-7,
    "-5e-05": -5e-05,
    "+1": 1,
    "+1.5": 1.5,
    ".5": 0.5,
    "+.5": 0.5,
    "-.5": -0.5,
    "5.": 5,
    ".5e3": 500,
    "1.0": 1,
    "-0": 0,
    "-0.0": 0,
    "0o14": 12,
    "014": 12,
    "08": 8,
    "09.5": 9.5,
    "0x1F": 31,
    "0X1f": 31,
    "0b11": 3,
    "-0b11": -3,
    "-0x1": -1,
    "1_000": 1000,
    "1_0.5": 10.5,
    "1__0": 10,
    "1_": 1,
    "0_7": 7,
    "0x_1F": 31,
    ".1_0": 0.1,
    "1e5_0": 1e50,
    "1e20": 1e20,
    "18446744073709551616": 1.8446744073709552e19,
    "9223372036854775807": 2**63 - 1,
    "0xffffffffffffffff": 2.0**64,
    "0x8000000000000000": 2.0**63,
    "0b" + "1" * 64: 2.0**64,
    "01777777777777777777777": 2.0**64,
    "0x" + "0" * 80 + "1": 1,
    "-0x8000000000000000": -(2**63),
    "+._5": 0.5,
    "-.5_": -0.5,
    ".nan": float("nan"),
    ".inf": INF,
    "+.INF": INF,
    "-.Inf": -INF,
    # Words.
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
}
TEXTS = ("1:30", "1:30:45.5", "2026-01-01", "2026-01-01T00:00:00Z", "=", "<<", "_1", "tRue", "nULL", "yEs", "1e400")
ALSO_TEXTS = ("-1e400", "1.5e", "1e", "e5", ".", "..", "+", "0x", "0o8", "0b2", ".e1", "-.nan", "123abc", "١٢")
LARGE_TEXTS = ("+0xffffffffffffffff", "-0x8000000000000001", "0x10000000000000000")
DOTTED_TEXTS = ("._5", ".5_", ".1__0", ".5_e3", ".5e_1", "._")


@pytest.mark.parametrize("text", VALUES)
def test_a_plain_text_is_the_value_that_kubectl_takes_it_for(text: str) -> None:
    value = plain_value(text)
    assert repr(value) == repr(VALUES[text])


@pytest.mark.parametrize("text", [*TEXTS, *ALSO_TEXTS, *LARGE_TEXTS, *DOTTED_TEXTS])
def test_what_kubectl_leaves_text_stays_text(text: str) -> None:
    assert plain_value(text) == text


def test_a_million_digits_take_no_time() -> None:
    assert plain_value("9" * 1_000_000) == "9" * 1_000_000
