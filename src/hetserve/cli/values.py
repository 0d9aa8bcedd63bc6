"""Callbacks for option values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from hetserve.base.units import Millionths, parse_duration, parse_money, parse_number

_Quantity = TypeVar("_Quantity", bound=float)
Callback = Callable[[click.Context, click.Parameter, str | None], Any]


def _positive(parse: Callable[[str], _Quantity], right: str) -> Callback:
    def convert(ctx: click.Context, param: click.Parameter, value: str | None) -> _Quantity | None:
        if value is None:
            return None
        try:
            quantity = parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None
        if quantity <= 0:
            raise click.BadParameter(f"{value!r} {right}", ctx, param)
        return quantity

    return convert


money = _positive(parse_money, "must be more than 0 $/h, for example 2.5")
duration = _positive(parse_duration, "must be longer than zero, for example 350ms")


def number(allowed: Callable[[float], bool], right: str) -> Callback:
    """A finite number for which `allowed` holds; `right`: in words."""

    def convert(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
        if value is None:
            return None
        try:
            number = parse_number(value)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and allowed(number)):
            raise click.BadParameter(f"{value!r} must be {right}", ctx, param)
        return number

    return convert


def max_slowdown(ctx: click.Context, param: click.Parameter, value: str | None) -> Millionths | None:
    """A factor of at least 1."""
    if value is None:
        return None
    from hetserve.profiles.sharing import parse_max_slowdown  # noqa: PLC0415

    try:
        return parse_max_slowdown(value, "slow-down")
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def quantity(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A Kubernetes quantity above 0, as it was written."""
    if value is None:
        return None
    from hetserve.base.units import parse_quantity  # noqa: PLC0415

    try:
        above_zero = parse_quantity(value) > 0
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
    if not above_zero:
        raise click.BadParameter(f"{value!r} must be more than zero, for example 3Gi", ctx, param)
    return value


threshold = number(lambda n: 0 < n <= 1, "a number above 0 and at most 1, for example 0.8")
weight = number(lambda n: n >= 0, "a number of at least 0, for example 0.0003")


def label(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A DNS label."""
    from hetserve.api.scalars import DNS_LABEL_PATTERN, dns_label  # noqa: PLC0415

    if len(value) <= 63 and re.fullmatch(DNS_LABEL_PATTERN, value):
        return value
    near = dns_label(value)
    hint = f"; write for example {near}" if near else ""
    raise click.BadParameter(
        f"{value!r} is not a DNS label (at most 63 lower-case letters, digits and dashes){hint}", ctx, param
    )


def subdomain(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A DNS subdomain."""
    from hetserve.api.scalars import DNS_SUBDOMAIN_PATTERN  # noqa: PLC0415

    if value is None or (len(value) <= 253 and re.fullmatch(DNS_SUBDOMAIN_PATTERN, value)):
        return value
    raise click.BadParameter(
        f"{value!r} is not a DNS subdomain (lower-case letters, digits, dashes and dots), for example g4dn.xlarge",
        ctx,
        param,
    )
