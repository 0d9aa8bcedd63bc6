"""`hetserve doctor`: what is wrong with this installation."""

from __future__ import annotations

import click

from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.cluster.snapshot import cluster_options, system_option
from hetserve.cli.output.documents import FORMATS


@click.command()
@cluster_options
@system_option
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
def doctor(system_namespace: str | None, output: str, **kubeconfig: str | None) -> None:
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
    from hetserve.cli.health.gather import run  # noqa: PLC0415

    run(ClusterClient.connect(**kubeconfig), system_namespace, output)
