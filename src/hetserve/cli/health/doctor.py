"""`hetserve doctor`: what is wrong with this installation."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from hetserve.cli.cluster.snapshot import system_option
from hetserve.cli.output.documents import FORMATS
from hetserve.cli.output.messages import EXIT_INFEASIBLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hetserve.cli.health.finding import Finding
    from hetserve.cli.output.terminal import Block

_STYLES = {"Ok": "green", "Note": "dim", "Unknown": "yellow", "Problem": "bold red"}


@click.command()
@click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config, else the pod's account.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: the current one.")
@system_option
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
def doctor(kubeconfig: str | None, context: str | None, system_namespace: str | None, output: str) -> None:
    """Say what is wrong with this installation, why that matters, and what to do.

    It looks at versions, the CRDs and their schema, who leads operator, extender and scheduler and what keeps their
    pods, the scheduler's way to the extender, GPU nodes, the rights of the components and of the caller, and the
    admission policy. It changes nothing. What the caller may not read is told as Unknown: an administrator sees all.

    \b
    Keys of -o json and yaml: namespace, sound, findings [check, level (Ok, Note, Unknown, Problem), what, why, do].
    \b
    Exit code: 0 nothing is wrong; 3 a Problem, or something could not be checked; 2 the cluster cannot be read.

    \b
    Examples:
      hetserve doctor
      hetserve doctor --system-namespace gpu-system -o json
    """
    from hetserve.cli.cluster.client import ClusterClient  # noqa: PLC0415
    from hetserve.cli.cluster.installation import system_namespace as namespace_of  # noqa: PLC0415
    from hetserve.cli.health.gather import gather  # noqa: PLC0415
    from hetserve.cli.health.judgement import findings, sound  # noqa: PLC0415
    from hetserve.cli.output.documents import dump  # noqa: PLC0415
    from hetserve.cli.output.terminal import text_of  # noqa: PLC0415

    cluster = ClusterClient.connect(kubeconfig, context)
    namespace = namespace_of(cluster, system_namespace)
    found = findings(gather(cluster, namespace))
    well = sound(found)
    if output == "table":
        click.echo(text_of([_block(found, namespace, well=well)]), nl=False)
    else:
        click.echo(dump([_document(found, namespace, well=well)], output), nl=False)
    sys.exit(0 if well else EXIT_INFEASIBLE)


def _document(found: Sequence[Finding], namespace: str, *, well: bool) -> dict[str, Any]:
    listed = [
        {"check": one.check, "level": str(one.level), "what": one.what, "why": one.why, "do": one.do} for one in found
    ]
    return {"namespace": namespace, "sound": well, "findings": listed}


def _block(found: Sequence[Finding], namespace: str, *, well: bool) -> Block:
    from rich.table import Table  # noqa: PLC0415

    from hetserve.cli.output.terminal import Block, styled  # noqa: PLC0415

    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for heading in ("CHECK", "LEVEL", "FINDING"):
        table.add_column(heading, overflow="fold", no_wrap=heading != "FINDING")
    for one in found:
        table.add_row(one.check, styled(str(one.level), _STYLES[str(one.level)]), one.what)
        for label, text in (("why", one.why), ("do", one.do)):
            if text:
                table.add_row("", "", f"{label}: {text}")
    amiss = sum(str(one.level) in ("Problem", "Unknown") for one in found)
    title = f"installation in {namespace}: " + ("nothing is wrong" if well else f"{amiss} to look at")
    return Block(title, (), (table,))
