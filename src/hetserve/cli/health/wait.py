"""`hetserve wait SERVICE`: until a service is Ready, or Stalled."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from hetserve.cli import values
from hetserve.cli.output import messages
from hetserve.cli.output.documents import FORMATS
from hetserve.cli.output.messages import EXIT_INFEASIBLE

if TYPE_CHECKING:
    from hetserve.base.units import Seconds
    from hetserve.cli.cluster.client import ClusterClient
    from hetserve.cli.health.standing import Standing

EXIT_TIMED_OUT: Final = 4
_EXITS: Final = {"Ready": 0, "Stalled": EXIT_INFEASIBLE}


@click.command()
@click.argument("service")
@click.option("-n", "--namespace", metavar="NS", help="Default: that of the context, else default.")
@click.option(
    "--timeout", metavar="TIME", default="10m", show_default=True, callback=values.duration, help="How long to wait."
)
@click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config, else the pod's account.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: the current one.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
def wait(
    service: str, namespace: str | None, *, timeout: Seconds, kubeconfig: str | None, context: str | None, output: str
) -> None:
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
    from hetserve.cli.cluster.client import ClusterClient  # noqa: PLC0415
    from hetserve.cli.output.documents import dump  # noqa: PLC0415

    cluster = ClusterClient.connect(kubeconfig, context)
    found = namespace or cluster.namespace
    began = time.monotonic()
    generation, stood = _settled(cluster, found, service, timeout)
    document: dict[str, Any] = {
        "service": service,
        "namespace": found,
        "generation": generation,
        "state": stood.state,
        "reason": stood.reason,
        "message": stood.message,
        "timedOut": not stood.settled,
        "waitedSeconds": round(time.monotonic() - began, 3),
    }
    click.echo(_line(document) if output == "table" else dump([document], output), nl=False)
    sys.exit(_EXITS.get(stood.state, EXIT_TIMED_OUT))


def _settled(cluster: ClusterClient, namespace: str, name: str, timeout: Seconds) -> tuple[int, Standing]:
    """(generation, standing): settled, or the last before the deadline."""
    from hetserve.api.kinds import INFERENCE_SERVICE  # noqa: PLC0415
    from hetserve.cli.cluster.client import ClusterError  # noqa: PLC0415
    from hetserve.cli.cluster.follow_object import follow_object  # noqa: PLC0415
    from hetserve.cli.health.standing import standing  # noqa: PLC0415

    last: tuple[int, Standing] | None = None
    for raw in follow_object(cluster, INFERENCE_SERVICE.path(namespace), name, timeout):
        if raw is None and last is None:
            raise ClusterError(f"there is no InferenceService {name} in namespace {namespace}; -n NS names another")
        if raw is None:
            raise ClusterError(f"InferenceService {name} in namespace {namespace} was deleted meanwhile")
        before, last = last, (int(raw["metadata"].get("generation") or 0), standing(raw))
        if last[1].settled:
            break
        if before is None or before[1] != last[1]:
            messages.note(f"{namespace}/{name} {_words(last[1])}")
    assert last is not None  # noqa: S101  the first is yielded before the deadline is looked at
    return last


def _words(stood: Standing) -> str:
    reason = f" ({stood.reason})" if stood.reason else ""
    return f"is {stood.state}{reason}: {stood.message}"


def _line(made: dict[str, Any]) -> str:
    from hetserve.sanitize import sanitize  # noqa: PLC0415

    reason = f" ({made['reason']})" if made["reason"] else ""
    late = f"is neither Ready nor Stalled after {made['waitedSeconds']:.0f} s; it " if made["timedOut"] else ""
    return sanitize(f"{made['namespace']}/{made['service']} {late}is {made['state']}{reason}: {made['message']}") + "\n"
