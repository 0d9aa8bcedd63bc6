"""`hetserve queue`: gated pods and who is next; `release` lifts the gate by hand."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

import click

from hetserve.cli.cluster.client import ClusterClient, ClusterError, pod_path
from hetserve.cli.cluster.snapshot import source_options, system_option
from hetserve.cli.output import messages
from hetserve.cli.output.documents import view_option
from hetserve.sanitize import sanitize

if TYPE_CHECKING:
    from hetserve.cli.placement.queue_release import ReleaseOutcome
    from hetserve.placement.queues.rounds import QueueSettings

EXIT_NOT_RELEASED: Final = 1
MAX_QUEUES: Final = 64


@click.group(invoke_without_command=True)
@source_options
@system_option
@click.option("-n", "--namespace", metavar="NS", help="List the pods of this namespace only; queues span all.")
@click.option("--queues", metavar="K", help='Number of queues, or "auto"; default: the extender\'s setting, else 4.')
@click.option("--beta", type=click.IntRange(min=1), help="Default: the extender's setting, else 8.")
@view_option("wide lists the pods.")
@click.pass_context
def queue(called: click.Context, /, namespace: str | None, output: str, **given: Any) -> None:
    """Show the queues of pods at the gate hetserve.io/queue: shapes, lengths, waits, shares, and who is next.

    Only the extender knows the queues' ids and credits between rounds; they are shown as after a restart.

    \b
    Exit code: 0; 2 the cluster or the file cannot be read.

    \b
    Examples:
      hetserve queue
      hetserve queue -n team -o wide
      hetserve queue release my-pod
      hetserve queue release --all --yes
    """
    if called.invoked_subcommand is not None:
        return
    from hetserve.base.units import Seconds  # noqa: PLC0415
    from hetserve.cli.cluster.snapshot import Source  # noqa: PLC0415
    from hetserve.cli.output.documents import dump  # noqa: PLC0415
    from hetserve.cli.output.terminal import text_of  # noqa: PLC0415
    from hetserve.cli.placement.placed import placer_of  # noqa: PLC0415
    from hetserve.cli.placement.queue_view import blocks, queues_document  # noqa: PLC0415

    source = Source.of(given["kubeconfig"], given["context"], given["file"])
    snapshot = source.snapshot()
    settings = _settings(source.cluster, **given)
    now = Seconds(time.time()) if snapshot.taken_at is None else snapshot.taken_at
    document = queues_document(placer_of(snapshot), settings, now, namespace)
    if output in {"json", "yaml"}:
        click.echo(dump([document], output), nl=False)
    else:
        click.echo(text_of(blocks(document, wide=output == "wide")), nl=False)


@queue.command()
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option("--all", "every", is_flag=True, help="Every pod at the gate, in the namespace or in all namespaces.")
@click.option("-n", "--namespace", metavar="NS", help="Default: that of the context; with --all: every namespace.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@click.option("--kubeconfig", metavar="FILE", help="Default: $KUBECONFIG, else ~/.kube/config, else the pod's account.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: the current one.")
def release(
    pods: tuple[str, ...], *, every: bool, namespace: str | None, yes: bool, kubeconfig: str | None, context: str | None
) -> None:
    """Lift the gate hetserve.io/queue from POD (NAME or NAMESPACE/NAME), out of turn and past beta.

    The patch goes directly to the API server with your rights (patch on pods), so it works while the extender is
    down. Other gates stay. The pods then go to their scheduler; a gate cannot be restored.

    \b
    Exit code: 0 released, or nothing was held; 1 some could not be released, or you said no;
    2 the cluster cannot be reached, or there is no such pod.
    """
    if bool(pods) == every:
        raise click.UsageError("name pods, or give --all")
    before = _given_before()  # `hetserve queue --kubeconfig FILE release POD` must not act on another cluster
    if before["file"] is not None:
        raise click.UsageError("--from reads a file: nothing can be released in it")
    for option in ("output", "queues", "beta"):
        if before[option] not in (None, "table"):
            raise click.UsageError(f"--{option} is for showing the queues: release takes none")
    namespace = namespace or before["namespace"]
    cluster = ClusterClient.connect(kubeconfig or before["kubeconfig"], context or before["context"])
    found = _all(cluster, namespace, yes=yes) if every else [_find(cluster, pod, namespace) for pod in pods]
    from hetserve.cli.placement.queue_release import release_all  # noqa: PLC0415

    failed = lifted = 0
    for outcome in release_all(cluster, found):
        _say(outcome)
        lifted += outcome.lifted
        failed += bool(outcome.error)
    if every:
        click.echo(f"{lifted} released" + (f", {failed} could not be" if failed else ""))
    sys.exit(EXIT_NOT_RELEASED if failed else 0)


def _given_before() -> dict[str, Any]:
    parent = click.get_current_context().parent
    return {} if parent is None else parent.params


def _all(cluster: ClusterClient, namespace: str | None, *, yes: bool) -> list[dict[str, Any]]:
    from hetserve.cli.placement.queue_release import gated  # noqa: PLC0415

    found = gated(cluster, namespace)
    where = "all namespaces" if namespace is None else f"namespace {namespace}"
    if found and not yes:
        whom = "the one pod" if len(found) == 1 else f"all {len(found)} pods"
        question = f"Release {whom} at the gate in {where}? Order and beta are then lost"
        if not click.confirm(question, err=True):
            sys.exit(EXIT_NOT_RELEASED)
    return found


def _find(cluster: ClusterClient, pod: str, namespace: str | None) -> dict[str, Any]:
    within, slash, name = pod.removeprefix("pod/").partition("/")
    if not slash:
        within, name = namespace or cluster.namespace, within
    found = cluster.find(pod_path(within, name))
    if found is None:
        raise ClusterError(f"there is no pod {name} in namespace {within}; -n NS names another")
    return found


def _say(outcome: ReleaseOutcome) -> None:
    if outcome.error:
        messages.error(str(outcome))
    else:
        click.echo(sanitize(str(outcome)))


def _settings(
    cluster: ClusterClient | None, *, queues: str | None, beta: int | None, system_namespace: str | None, **_source: Any
) -> QueueSettings:
    """Settings from options, else the extender's ConfigMap, else defaults."""
    from hetserve.cli.cluster.extender import extender_settings  # noqa: PLC0415
    from hetserve.cli.cluster.installation import system_namespace as namespace_of  # noqa: PLC0415
    from hetserve.placement.queues.rounds import QueueSettings, Weights  # noqa: PLC0415

    installed = extender_settings(cluster, namespace_of(cluster, system_namespace)).get("queue") or {}
    defaults = QueueSettings()
    k = installed.get("queues", defaults.queues) if queues is None else _k(queues)
    weights = Weights(installed.get("weights", defaults.weights))
    return QueueSettings(k, beta or installed.get("beta", defaults.beta), weights=weights)


def _k(text: str) -> Any:
    if text == "auto" or (text.isascii() and text.isdecimal() and 1 <= int(text) <= MAX_QUEUES):
        return text if text == "auto" else int(text)
    wanted = f'a number of queues from 1 to {MAX_QUEUES}, or "auto"'
    raise click.BadParameter(f"{text!r} is not {wanted}", param_hint="--queues")
