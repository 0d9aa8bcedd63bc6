"""The commands `hetserve doctor` and `hetserve wait`; what they do is imported when they run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from hetserve.cli import values
from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.cluster.snapshot import cluster_options, system_option
from hetserve.cli.output.streams import FORMATS

if TYPE_CHECKING:
    from hetserve.base.units import Seconds


@click.command()
@cluster_options
@system_option
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
def doctor(system_namespace: str | None, output: str, **kubeconfig: str | None) -> None:
    """Say what is wrong with this installation, why that matters, and what to do.

    It looks at versions, the CRDs and their schema, who leads operator, extender and scheduler and what keeps their
    pods, the scheduler's way to the extender, GPU nodes, the rights of the components and of the caller, the
    admission policy and, with a router, at instances that refuse it and at loads that are counted twice. It changes
    nothing. What the caller may not read is told as Unknown: an administrator sees all.

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


@click.command()
@click.argument("service")
@click.option("-n", "--namespace", metavar="NS", help="Default: that of the context, else default.")
@click.option(
    "--timeout", metavar="TIME", default="10m", show_default=True, callback=values.duration, help="How long to wait."
)
@cluster_options
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
def wait(service: str, namespace: str | None, timeout: Seconds, output: str, **kubeconfig: str | None) -> None:
    """Wait until SERVICE is Ready, or Stalled: then it stays so until something declared changes.

    Conditions count where they are about the service's present generation, so that an edit is waited for. What
    happens meanwhile goes to stderr, a line for each change. The service is watched: the right to list and watch it is
    needed.

    \b
    Keys of -o json and yaml: service, namespace, generation, state (Ready, Stalled, Reconciling or Unseen), reason,
      message, timedOut, waitedSeconds.
    \b
    Exit code: 0 Ready; 3 Stalled; 4 neither within the time; 2 the service cannot be read, or was deleted.

    \b
    Examples:
      hetserve wait web -n team
      hetserve wait web --timeout 90s -o json
    """
    from hetserve.cli.health.standing import run  # noqa: PLC0415

    run(service, namespace, timeout, ClusterClient.connect(**kubeconfig), output)
