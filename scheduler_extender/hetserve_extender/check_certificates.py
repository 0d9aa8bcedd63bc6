"""`hetserve-extender check-certificates`: whether both sides of the verbs' port will let each other in."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from hetserve.base.certificates import day
from hetserve.base.units import Seconds
from hetserve_shell.tls.handshake import Sides, first_end, problems
from hetserve_shell.tls.identity import TlsFiles

EXIT_REFUSED = 2
"""As of an extender that starts with such a certificate."""


@click.command()
@click.option(
    "--extender", type=click.Path(path_type=Path), required=True, help="Folder with tls.crt, tls.key, ca.crt."
)
@click.option("--scheduler", type=click.Path(path_type=Path), required=True, help="The same of the scheduler.")
@click.option("--trust", type=click.Path(path_type=Path), help="Authorities that both trust instead of their ca.crt.")
@click.option("--server-name", required=True, help="DNS name by which the scheduler knows the extender.")
@click.option("--client-name", "client_names", multiple=True, help="Name that a caller may have; none: any.")
def check_certificates(
    extender: Path, scheduler: Path, trust: Path | None, server_name: str, client_names: tuple[str, ...]
) -> None:
    """Say whether the certificates of extender and scheduler hold and let each other in.

    \b
    Exit code: 0; 2 they do not: each file that is wrong, why, and what to do.
    """
    sides = Sides(_files(extender, trust), _files(scheduler, trust), server_name, frozenset(client_names))
    found = problems(sides, Seconds(time.time()))
    for words in found:
        click.echo(f"Error: {words}", err=True)
    if found:
        sys.exit(EXIT_REFUSED)
    click.echo(f"extender and scheduler trust each other, until {day(first_end(sides))} at the least")


def _files(folder: Path, trust: Path | None) -> TlsFiles:
    return TlsFiles(folder / "tls.crt", folder / "tls.key", trust or folder / "ca.crt")
