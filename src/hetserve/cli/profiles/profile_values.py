"""Names and files given as options of `hetserve profile`, checked where they enter."""

from __future__ import annotations

import re
from pathlib import Path

import click

PLOT_FORMS = (".png", ".svg")


def label(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A DNS label: models and namespaces."""
    from hetserve.api.scalars import DNS_LABEL_PATTERN, dns_label  # noqa: PLC0415

    if len(value) <= 63 and re.fullmatch(DNS_LABEL_PATTERN, value):
        return value
    near = dns_label(value)
    hint = f"; write for example {near}" if near else ""
    raise click.BadParameter(
        f"{value!r} is not a DNS label (at most 63 lower-case letters, digits and dashes){hint}", ctx, param
    )


def subdomain(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A DNS subdomain: names of objects and of instance types."""
    from hetserve.api.scalars import DNS_SUBDOMAIN_PATTERN  # noqa: PLC0415

    if value is None or (len(value) <= 253 and re.fullmatch(DNS_SUBDOMAIN_PATTERN, value)):
        return value
    raise click.BadParameter(
        f"{value!r} is not a DNS subdomain (lower-case letters, digits, dashes and dots), for example g4dn.xlarge",
        ctx,
        param,
    )


def picture(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """File of a plot, by its ending a bitmap or a drawing."""
    if value is None or Path(value).suffix.lower() in PLOT_FORMS:
        return value
    raise click.BadParameter(f"{value!r} must end in {' or '.join(PLOT_FORMS)}", ctx, param)
