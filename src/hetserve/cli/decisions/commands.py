"""The commands `hetserve decision` and `hetserve explain`; what they do is imported when they run."""

from __future__ import annotations

import click

from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.cluster.snapshot import cluster_options
from hetserve.cli.output.streams import FORMATS


@click.group()
def decision() -> None:
    """Make recorded decisions of scaling again."""


@decision.command()
@click.argument("file", metavar="RECORD.json")
@click.option("--index", type=click.IntRange(min=1), help="Of a ring's records; 1 is the newest. Default: 1.")
@click.option("--as-recorded", is_flag=True, help="Take the planners' recorded answers, instead of planning anew.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
def replay(file: str, index: int | None, *, as_recorded: bool, output: str) -> None:
    """Make the decision of RECORD.json again, by the same core and planners, and say whether it is identical, or what
    differs, field by field.

    RECORD.json is a record, or the ConfigMap SERVICE-decisions as kubectl prints it (-o json or yaml); - is stdin.
    Planners are asked anew, but where none had answered when the decision was made: such answers are taken from the
    record, and named. --as-recorded takes them all: what differs then is not the planners.

    \b
    Keys of -o json and yaml: service, namespace, time, action, reason, from, to, identical, versions {recorded, here},
      questions [question, answeredBy (Planner or Record), why], differences [field, recorded, now].
    \b
    Exit code: 0 identical, 1 something differs, 2 bad input.

    \b
    Examples:
      kubectl get configmap web-decisions -o json | hetserve decision replay -
      hetserve decision replay ring.yaml --index 3
    """
    from hetserve.cli.decisions.recorded import run  # noqa: PLC0415

    run(file, index, output, as_recorded=as_recorded)


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
    from hetserve.cli.decisions.explain import run  # noqa: PLC0415

    run(service, namespace, ClusterClient.connect(**kubeconfig), output, every=every)
