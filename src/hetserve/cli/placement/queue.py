"""`hetserve queue`: gated pods and who is next; `release` lifts the gate by hand."""

from __future__ import annotations

from typing import Any

import click

from hetserve.cli.cluster.client import ClusterClient
from hetserve.cli.cluster.snapshot import cluster_options, source_options, system_option
from hetserve.cli.output.documents import view_option


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
    from hetserve.cli.placement.queue_view import run  # noqa: PLC0415

    run(namespace, output, **given)


@queue.command()
@click.argument("pods", nargs=-1, metavar="[POD]...")
@click.option("--all", "every", is_flag=True, help="Every pod at the gate, in the namespace or in all namespaces.")
@click.option("-n", "--namespace", metavar="NS", help="Default: that of the context; with --all: every namespace.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation of --all.")
@cluster_options
def release(pods: tuple[str, ...], *, every: bool, namespace: str | None, yes: bool, **kubeconfig: str | None) -> None:
    """Lift the gate hetserve.io/queue from POD (NAME or NAMESPACE/NAME), out of turn and past beta.

    The patch goes directly to the API server with your rights (patch on pods), so it works while the extender is
    down. Other gates stay. The pods then go to their scheduler; a gate cannot be restored.

    \b
    Exit code: 0 released, or nothing was held; 1 some could not be released, or you said no;
    2 the cluster cannot be reached, or there is no such pod.
    """
    if bool(pods) == every:
        raise click.UsageError("name pods, or give --all")
    parent = click.get_current_context().parent
    before = {} if parent is None else parent.params  # `queue --kubeconfig FILE release` acts on no other cluster
    if before["file"] is not None:
        raise click.UsageError("--from reads a file: nothing can be released in it")
    for option in ("output", "queues", "beta"):
        if before[option] not in (None, "table"):
            raise click.UsageError(f"--{option} is for showing the queues: release takes none")
    from hetserve.cli.placement.queue_release import run  # noqa: PLC0415

    cluster = ClusterClient.connect(**{name: given or before[name] for name, given in kubeconfig.items()})
    run(cluster, pods, namespace or before["namespace"], yes=yes)
