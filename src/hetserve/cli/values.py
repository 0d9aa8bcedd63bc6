"""Options together, and callbacks for their values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import Any

import click

from hetserve.base.files import InputError, UnreadableError
from hetserve.base.units import number_or_nan, parse_duration, parse_money, parse_quantity

Callback = Callable[[click.Context, click.Parameter, Any], Any]
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def options(*decorators: Decorator) -> Decorator:
    """Options of a command, in this order, as one decorator."""
    return lambda command: reduce(lambda made, option: option(made), reversed(decorators), command)


def parsed(parse: Callable[[Any], Any]) -> Callback:
    """The value by `parse`, whose errors are of this option; None stays None."""

    def convert(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if value is None:
            return None
        try:
            return parse(value)
        except UnicodeDecodeError:
            raise click.BadParameter(f"{value}: cannot be read: it is not UTF-8 text", ctx, param) from None
        except (ValueError, InputError) as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return convert


@contextmanager
def option_named(option: str) -> Iterator[None]:
    """Reports a file that cannot be read with the option that names it. Raises InputError."""
    try:
        yield
    except UnreadableError as error:
        raise InputError([f"{option} {error}"]) from None


def _positive(parse: Callable[[str], Any], right: str) -> Callback:
    def quantity(text: str) -> Any:
        found = parse(text)
        if found <= 0:
            raise ValueError(f"{text!r} {right}")
        return found

    return parsed(quantity)


def number(allowed: Callable[[float], bool], right: str) -> Callback:
    """A finite number for which `allowed` holds; `right`: in words."""

    def finite(text: str) -> float:
        number = number_or_nan(text)
        if not (math.isfinite(number) and allowed(number)):
            raise ValueError(f"{text!r} must be {right}")
        return number

    return parsed(finite)


def _written(text: str) -> str:
    """A Kubernetes quantity above 0, as it was written."""
    if parse_quantity(text) <= 0:
        raise ValueError(f"{text!r} must be more than zero, for example 3Gi")
    return text


def _max_slowdown(text: str) -> Any:
    from hetserve.profiles.sharing import parse_max_slowdown  # noqa: PLC0415

    return parse_max_slowdown(text, "slow-down")


def _label(text: str) -> str:
    from hetserve.api.scalars import DNS_LABEL_PATTERN, dns_label  # noqa: PLC0415

    if len(text) <= 63 and re.fullmatch(DNS_LABEL_PATTERN, text):
        return text
    near = dns_label(text)
    hint = f"; write for example {near}" if near else ""
    raise ValueError(f"{text!r} is not a DNS label (at most 63 lower-case letters, digits and dashes){hint}")


def _subdomain(text: str) -> str:
    from hetserve.api.scalars import DNS_SUBDOMAIN_PATTERN  # noqa: PLC0415

    if len(text) <= 253 and re.fullmatch(DNS_SUBDOMAIN_PATTERN, text):
        return text
    what = "a DNS subdomain (lower-case letters, digits, dashes and dots), for example g4dn.xlarge"
    raise ValueError(f"{text!r} is not {what}")


money = _positive(parse_money, "must be more than 0 $/h, for example 2.5")
duration = _positive(parse_duration, "must be longer than zero, for example 350ms")
threshold = number(lambda n: 0 < n <= 1, "a number above 0 and at most 1, for example 0.8")
weight = number(lambda n: n >= 0, "a number of at least 0, for example 0.0003")
max_slowdown, quantity = parsed(_max_slowdown), parsed(_written)
label, subdomain = parsed(_label), parsed(_subdomain)
