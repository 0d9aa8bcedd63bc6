"""The commands of placement: gpus, placement, queue, why; what each does is imported when it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hetserve.cli.cluster.client import ClusterClient, ClusterError
from hetserve.cli.cluster.extender import Record, live_log, read_log, reader_token_of, system_namespace
from hetserve.cli.cluster.snapshot import Source, cluster_options, dump_document, source_options, system_option
from hetserve.cli.output import streams
from hetserve.cli.output.streams import view_option
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, default_placement_policy


@click.command()
@source_options
@click.option("--node", "nodes", multiple=True, metavar="NODE", help="Only the GPUs of this node; may be repeated.")
@click.option("--watch", is_flag=True, help="Draw again after each change, until Ctrl-C.")
@view_option("wide names the pods.")
@click.option("--plot", metavar="FILE", help="Also draw a figure to FILE (.svg, .png or .pdf).")
def gpus(nodes: tuple[str, ...], watch: bool, output: str, plot: str | None, **source_of: str | None) -> None:
    """Show every GPU with the pods that share it, its free memory, and inconsistencies.

    The length of a GPU's bar is its memory: a letter and colour per model, dots for free memory, ! if more is held
    than the GPU has. A pod holds its GPU from its bind until it is gone.

    \b
    Exit code: 0; 2 the cluster or the file cannot be read.

    \b
    Examples:
      hetserve gpus
      hetserve gpus --node gpu-node-1 -o wide
      hetserve gpus --watch
      kubectl get nodes,pods -A -o json | hetserve gpus --from - -o json
    """
    if watch and plot is not None:
        raise click.UsageError("--plot draws one picture: it cannot be given with --watch")
    from hetserve.cli.placement.gpus_picture import run  # noqa: PLC0415

    run(nodes, output, plot, watch=watch, **source_of)


@click.group()
def placement() -> None:
    """Dump what placement depends on, and replay the extender's log of decisions."""


@placement.command()
@source_options
@system_option
@click.option("-o", "--output", "path", metavar="FILE", default="-", help="Default: standard output.")
@click.option("--log", "where", metavar="URL|FILE", help="Log of the extender; default: that of the leader's pod.")
@click.option("--no-log", is_flag=True, help="Write nodes and pods only.")
def dump(path: str, where: str | None, no_log: bool, **source_of: str | None) -> None:
    """Write nodes, pods and the placement log to a file that `gpus`, `why`, `queue` (--from) and `replay` read.

    Pods are reduced to what placement reads: no environment, commands or images. The extender keeps a log if its
    setting placementLog has a size (such as 16Mi). Without a log, a note on stderr says so.

    \b
    Exit code: 0; 2 the cluster cannot be read or the file cannot be written.

    \b
    Examples:
      hetserve placement dump -o dump.json
      hetserve placement dump --log http://127.0.0.1:8889/log -o dump.json
    """
    named = source_of.pop("system_namespace")
    source = Source.of(**source_of)
    document = dump_document(source.snapshot())
    records = [] if no_log else _log(source, where, named)
    text = json.dumps({**document, **({"log": records} if records else {})}, separators=(",", ":"))
    try:
        if path == "-":
            click.echo(text)
        else:
            Path(path).write_text(text + "\n")
    except OSError as error:
        raise ClusterError(f"-o {path}: cannot be written: {error.strerror}") from None


def _log(source: Source, where: str | None, named: str | None) -> list[Record]:
    if where is not None:
        return read_log(where, lambda: reader_token_of(source.cluster, named))
    if source.cluster is None:
        return []
    try:
        return live_log(source.cluster, system_namespace(source.cluster, named))
    except ClusterError as error:
        streams.note(f"no placement log in this dump: {error.message}")
        return []


@placement.command()
@click.argument("log", metavar="FILE|URL")
@click.option(
    "--policy",
    type=click.Choice(PLACEMENT_POLICIES.names),
    help="Compare the log's policy with this one, instead of the decisions.",
)
@cluster_options
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def replay(**options: Any) -> None:
    """Run a placement log through the same code again and compare every decision with the logged one.

    FILE is a dump, or what the extender's /log serves (- is stdin). A URL may ask for a token: that of the kubeconfig.

    \b
    Exit code: 0 every decision is the same, 1 one is not (it is printed as it was and as it is now), 2 no log.

    \b
    Examples:
      hetserve placement replay dump.json
      hetserve placement replay http://127.0.0.1:8889/log
      hetserve placement replay dump.json --policy BestFit
    """
    from hetserve.cli.placement.replayed import run  # noqa: PLC0415

    run(**options)


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


@click.command()
@click.argument("pod", required=False)
@click.option(
    "-f", "--filename", metavar="FILE", help="A manifest instead of POD: what its pod would get; - is standard input."
)
@click.option("-n", "--namespace", metavar="NS", help="Default: that of the context, else default.")
@source_options
@system_option
@click.option(
    "--policy",
    type=click.Choice(PLACEMENT_POLICIES.names),
    help=f"For a pod that names none; default: as the extender is configured, else {default_placement_policy()}.",
)
@click.option("--log", metavar="URL|FILE", help="Placement log, to tell what was decided about the pod, and when.")
@click.option("--all", "every", is_flag=True, help="List every GPU.")
@click.option("-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
def why(**options: Any) -> None:
    """Say where POD is and beside whom, or why it is not placed yet: which GPUs would fit now, which it would get,
    and for every other what is in the way.

    The decision is made by the scheduler extender's own code over the cluster as it is now. What the kube-scheduler
    judges besides (affinity, CPU, volumes, ...) is named where it is not looked at.

    With -f FILE nothing need exist: the manifest of a pod, or of a workload that makes pods, is judged as one pod that
    is created now. What the API server would add to it (a priority class's number, defaults of admission) is not known.

    \b
    Exit code: 0 the pod holds a GPU, needs none, or would get one now; 3 no GPU fits, the pod is ending without
    one, or it names another scheduler; 2 it cannot be read.

    \b
    Examples:
      hetserve why my-model-7d9f
      hetserve why -n team my-model-7d9f --all
      hetserve why --from dump.json -o json my-model-7d9f
      hetserve why -f pod.yaml
    """
    from hetserve.cli.placement.why_answer import run  # noqa: PLC0415

    run(**options)
