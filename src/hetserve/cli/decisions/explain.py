"""`hetserve explain SERVICE`: what is in force, why, and what was decided before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from hetserve.cli.output import messages
from hetserve.cli.output.documents import FORMATS

if TYPE_CHECKING:
    from hetserve.base.units import Seconds
    from hetserve.cli.cluster.client import ClusterClient
    from hetserve.scaling.record.ring import Ring


@click.command()
@click.argument("service")
@click.option("-n", "--namespace", metavar="NS", help="Default: that of the context, else default.")
@click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config, else the pod's account.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: the current one.")
@click.option("--all", "every", is_flag=True, help="List every recorded decision.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
def explain(
    service: str, namespace: str | None, kubeconfig: str | None, context: str | None, *, every: bool, output: str
) -> None:
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
    from hetserve.cli.cluster.client import ClusterClient  # noqa: PLC0415
    from hetserve.cli.decisions.explain_answer import answer  # noqa: PLC0415
    from hetserve.cli.decisions.explain_text import blocks  # noqa: PLC0415
    from hetserve.cli.output.documents import dump  # noqa: PLC0415
    from hetserve.cli.output.terminal import text_of  # noqa: PLC0415

    cluster = ClusterClient.connect(kubeconfig, context)
    found = namespace or cluster.namespace
    made, errors = answer(_service(cluster, found, service), _ring(cluster, found, service), _now(cluster))
    for error in errors:
        messages.note(f"a record is not shown: {error}")
    click.echo(text_of(blocks(made, every=every)) if output == "table" else dump([made], output), nl=False)


def _service(cluster: ClusterClient, namespace: str, name: str) -> dict[str, Any]:
    from hetserve.cli.cluster.client import ClusterError, service_path  # noqa: PLC0415

    found = cluster.find(service_path(namespace, name))
    if found is None:
        raise ClusterError(f"there is no InferenceService {name} in namespace {namespace}; -n NS names another")
    return found


def _now(cluster: ClusterClient) -> Seconds | None:
    """None: the API server does not say."""
    from hetserve.cli.cluster.client import ClusterError  # noqa: PLC0415

    try:
        return cluster.time()
    except ClusterError:
        return None


def _ring(cluster: ClusterClient, namespace: str, service: str) -> Ring:
    """The records; without the right to read them, none, with a note."""
    from hetserve.cli.cluster.client import ClusterError, config_map_path  # noqa: PLC0415
    from hetserve.scaling.record.ring import ring_name, ring_of  # noqa: PLC0415

    try:
        return ring_of(cluster.find(config_map_path(namespace, ring_name(service))))
    except ClusterError as error:
        messages.note(f"records of decisions are not shown: {error}")
        return ()
