"""`hetserve explain SERVICE`: what is in force, why, and what was decided before."""

from __future__ import annotations

import click

from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.cluster.snapshot import cluster_options
from hetserve.cli.output.documents import FORMATS


@click.command()
@click.argument("service")
@click.option("-n", "--namespace", metavar="NS", help="Default: that of the context, else default.")
@cluster_options
@click.option("--all", "every", is_flag=True, help="List every recorded decision.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
def explain(service: str, namespace: str | None, *, every: bool, output: str, **kubeconfig: str | None) -> None:
    """Say which instances of SERVICE are in force and why, the runner-up and why not, what limits it, the load as
    measured, and the last decisions.

    It is read from the service's status and from the records in the ConfigMap SERVICE-decisions; nothing is decided
    here. `hetserve decision replay` makes a recorded decision again.

    \b
    Keys of -o json and yaml: service, namespace, mode, pause, inForce {summary, hourlyCost, load, qps, planner, tried,
      verdict, mix (batch sizes as measured, in words; absent: the declared)}, why, runnerUp, ready [instanceType,
      desired, bound, ready], limits [type, status, reason, message],
      demand {qps, freshness, sampledAt, ageSeconds (by the API server's clock)}, measured {time, lowest, highest,
      forecast, capacity, saturation, scaleUpWindow, scaleDownWindow} (of the newest record; queries/s and seconds),
      transition, advice,
      decisions [time, action, reason, from, to, load, message; record: its index; replays], records (the ConfigMap).
    \b
    Exit code: 0; 2 the service cannot be read.

    \b
    Examples:
      hetserve explain web -n team
      hetserve explain web -o json
    """
    from hetserve.cli.decisions.explain_answer import run  # noqa: PLC0415

    run(service, namespace, ClusterClient.connect(**kubeconfig), output, every=every)
