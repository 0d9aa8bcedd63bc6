"""Types of scalar fields, with their schema and validation."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from hetserve.api.base import Rule
from hetserve.base.units import (
    DURATION_PATTERN,
    MONEY_PATTERN,
    QUANTITY_PATTERN,
    RATIO_PATTERN,
    parse_duration,
    parse_money,
    parse_quantity,
    parse_ratio,
)

DNS_LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
# Like cloud instance types: g4dn.xlarge.
DNS_SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"


def dns_label(text: str) -> str:
    """``MT-WND`` -> ``mt-wnd``; may be empty."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:63].strip("-")


def _checked(rule: Rule) -> AfterValidator:
    def check(value: str) -> str:
        if rule.holds is not None and not rule.holds(value):
            raise ValueError(rule.message)
        return value

    return AfterValidator(check)


_NANOSECONDS = {"us": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}


def nanoseconds(text: str) -> int:
    """A duration as CEL compares it: each part of it cut off to whole nanoseconds. Raises ValueError."""
    parse_duration(text)
    parts = re.findall(r"([0-9.]+)(us|ms|s|m|h)", text)
    return sum(int(Decimal(number) * _NANOSECONDS[unit]) for number, unit in parts)


def _between(least: str, most: str) -> Rule:
    return Rule(
        f"duration(self) >= duration('{least}') && duration(self) <= duration('{most}')",
        f"must be at least {least} and at most {most}",
        lambda s: nanoseconds(least) <= nanoseconds(s) <= nanoseconds(most),
    )


def _scalar(pattern: str, max_length: int, description: str, rule: Rule | None = None) -> Any:
    extra: dict[str, Any] = {"x-kubernetes-validations": [rule.as_schema()]} if rule else {}
    return Field(pattern=pattern, max_length=max_length, description=description, json_schema_extra=extra)


_POSITIVE_DURATION = Rule(
    "duration(self) > duration('0s')",
    "must be longer than zero, for example 350ms",
    lambda s: parse_duration(s) > 0,
)
_POSITIVE_MONEY = Rule("double(self) > 0.0", "must be more than 0 $/h, for example 2.5", lambda s: parse_money(s) > 0)
_POSITIVE_QUANTITY = Rule(
    "quantity(string(self)).isGreaterThan(quantity('0'))",
    "must be more than zero, for example 4Gi",
    lambda s: parse_quantity(s) > 0,
)
_PERCENTILE = Rule(
    "double(self) > 50.0 && double(self) < 100.0",
    "must be above 50 and below 100, for example 99",
    lambda s: 50 < Decimal(s) < 100,
)
_VARIATION = Rule("double(self) <= 10.0", "must be at most 10, for example 0.05", lambda s: Decimal(s) <= 10)
_SHARE = Rule(
    "double(self) > 0.0 && double(self) <= 1.0",
    "must be above 0 and at most 1, for example 0.57",
    lambda s: 0 < parse_ratio(s) <= 1_000_000,
)
_MEAN_BATCH = Rule(
    "double(self) >= 1.0", "must be at least 1 item, for example 165", lambda s: parse_ratio(s) >= 1_000_000
)
_POSITIVE_DECIMAL = Rule("double(self) > 0.0", "must be above 0, for example 16.5", lambda s: parse_ratio(s) > 0)
_FACTOR = Rule("double(self) >= 1.0", "must be at least 1, for example 1.08", lambda s: parse_ratio(s) >= 1_000_000)
_ACCURACY = Rule("double(self) <= 100.0", "must be at most 100, for example 79.44", lambda s: Decimal(s) <= 100)
_TOLERANCE = Rule("double(self) < 1.0", "must be below 1, for example 0.1", lambda s: parse_ratio(s) < 1_000_000)
Duration = Annotated[str, _scalar(DURATION_PATTERN, 32, "a duration, for example 350ms")]
PositiveDuration = Annotated[
    str,
    _scalar(DURATION_PATTERN, 32, "a duration, for example 350ms", _POSITIVE_DURATION),
    _checked(_POSITIVE_DURATION),
]
_WINDOW, _STABILIZATION, _HORIZON = _between("1s", "1h"), _between("0s", "1h"), _between("1m", "720h")
Window = Annotated[str, _scalar(DURATION_PATTERN, 32, "a duration, for example 1m", _WINDOW), _checked(_WINDOW)]
StabilizationWindow = Annotated[
    str, _scalar(DURATION_PATTERN, 32, "a duration, for example 5m", _STABILIZATION), _checked(_STABILIZATION)
]
Horizon = Annotated[str, _scalar(DURATION_PATTERN, 32, "a duration, for example 1h", _HORIZON), _checked(_HORIZON)]
Money = Annotated[
    str,
    _scalar(MONEY_PATTERN, 13, "decimal dollars per hour, for example 2.5", _POSITIVE_MONEY),
    _checked(_POSITIVE_MONEY),
]
Percentile = Annotated[
    str,
    _scalar(r"^[0-9]{1,2}(\.[0-9]{1,4})?$", 8, "share of queries in percent, for example 99", _PERCENTILE),
    _checked(_PERCENTILE),
]
Variation = Annotated[
    str,
    _scalar(
        MONEY_PATTERN,
        13,
        "standard deviation / mean of the latency of equal queries (log-normal), for example 0.05",
        _VARIATION,
    ),
    _checked(_VARIATION),
]
Share = Annotated[str, _scalar(RATIO_PATTERN, 13, "a decimal share, above 0 and at most 1", _SHARE), _checked(_SHARE)]
MeanBatch = Annotated[
    str, _scalar(RATIO_PATTERN, 13, "decimal items, at least 1, for example 165", _MEAN_BATCH), _checked(_MEAN_BATCH)
]
PositiveDecimal = Annotated[
    str, _scalar(RATIO_PATTERN, 13, "a decimal number above 0", _POSITIVE_DECIMAL), _checked(_POSITIVE_DECIMAL)
]
Factor = Annotated[str, _scalar(RATIO_PATTERN, 13, "a decimal factor of at least 1", _FACTOR), _checked(_FACTOR)]
Accuracy = Annotated[
    str,
    _scalar(RATIO_PATTERN, 13, "share of right answers in percent, for example 79.44", _ACCURACY),
    _checked(_ACCURACY),
]
Tolerance = Annotated[
    str, _scalar(RATIO_PATTERN, 13, "a decimal share, from 0 to below 1", _TOLERANCE), _checked(_TOLERANCE)
]


def _whole(value: Any) -> Any:
    if isinstance(value, bool | str):
        raise ValueError("must be a whole number")  # noqa: TRY004  (pydantic's)
    return value


InstanceCount = Annotated[int, Field(ge=1, le=10_000), BeforeValidator(_whole)]
# May be a number (cpu: 2), as everywhere in Kubernetes.
Quantity = Annotated[
    str,
    BeforeValidator(lambda value: str(value) if isinstance(value, int) and not isinstance(value, bool) else value),
    Field(pattern=QUANTITY_PATTERN, max_length=32),
    _checked(_POSITIVE_QUANTITY),
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "pattern": QUANTITY_PATTERN,
            "maxLength": 32,
            "description": "a Kubernetes quantity, for example 4Gi",
            "x-kubernetes-validations": [_POSITIVE_QUANTITY.as_schema()],
        }
    ),
]


def distinct(key: Callable[[Any], Any], what: str) -> AfterValidator:
    def check(entries: list[Any] | None) -> list[Any] | None:
        seen: set[Any] = set()
        for entry in entries or []:
            if key(entry) in seen:
                raise ValueError(f"duplicate {what} {key(entry)!r}: each may appear once")
            seen.add(key(entry))
        return entries

    return AfterValidator(check)


DnsLabel = Annotated[str, _scalar(DNS_LABEL_PATTERN, 63, "a DNS label: lower-case letters, digits and dashes")]
TypeName = Annotated[str, _scalar(DNS_SUBDOMAIN_PATTERN, 63, "name of an instance type, for example g4dn.xlarge")]
