"""`hetserve why POD`: where a pod is, or why it is not placed; `-f` asks before it is created."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click

from hetserve.cli.cluster.snapshot import source_options, system_option
from hetserve.cli.output import messages
from hetserve.cli.output.messages import EXIT_INFEASIBLE
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, default_placement_policy

if TYPE_CHECKING:
    from collections.abc import Callable

    from hetserve.cli.cluster.snapshot import ClusterSnapshot, Source

_DECISIONS: Final = 4


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
def why(pod: str | None, namespace: str | None, every: bool, output: str, **given: str | None) -> None:
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
    from hetserve.cli.cluster.extender import extender_settings, reader_token_of  # noqa: PLC0415
    from hetserve.cli.cluster.installation import system_namespace  # noqa: PLC0415
    from hetserve.cli.cluster.snapshot import Source  # noqa: PLC0415
    from hetserve.cli.output.documents import dump  # noqa: PLC0415
    from hetserve.cli.output.terminal import text_of  # noqa: PLC0415
    from hetserve.cli.placement.why_answer import answer  # noqa: PLC0415
    from hetserve.cli.placement.why_text import blocks  # noqa: PLC0415
    from hetserve.placement.pods.requests import DEFAULT_POLICY, policy_name  # noqa: PLC0415
    from hetserve.placement.queues.rounds import QueueSettings  # noqa: PLC0415

    policy, log, named = given.pop("policy"), given.pop("log"), given.pop("system_namespace")
    filename = given.pop("filename")
    if (pod is None) == (filename is None):
        raise click.UsageError("name one POD, or a manifest by -f FILE")
    if filename is not None and (filename, given["file"]) == ("-", "-"):
        raise click.UsageError("-f - and --from - cannot both read standard input")
    source = Source.of(**given)
    snapshot, raw = _asked(source, pod, filename, namespace)
    system = system_namespace(source.cluster, named)
    installed = extender_settings(source.cluster, system)
    beta = int((installed.get("queue") or {}).get("beta", QueueSettings().beta))
    made = answer(raw, snapshot, policy_name(policy or installed.get("policy", DEFAULT_POLICY)), beta)
    if filename is None:
        token = partial(reader_token_of, source.cluster, system)
        made |= _decided(str(made["pod"]["uid"]), log, snapshot, token)
    elif "decision" in made:
        made |= {"state": "NotCreated", "message": f"is not created; once it is, it {made['message']}"}
    click.echo(dump([made], output) if output != "table" else text_of(blocks(made, every=every)), nl=False)
    if made["state"] == "Unreadable":
        sys.exit(2)
    sys.exit(EXIT_INFEASIBLE if _placeless(made) else 0)


def _asked(
    source: Source, pod: str | None, filename: str | None, namespace: str | None
) -> tuple[ClusterSnapshot, dict[str, Any]]:
    """(snapshot, the pod: of a name in it or of a manifest)."""
    from hetserve.cli.placement.planned_pod import planned_pod  # noqa: PLC0415

    if filename is not None:
        snapshot = source.snapshot()
        now = time.time() if snapshot.taken_at is None else snapshot.taken_at
        return snapshot, planned_pod(filename, namespace, source.namespace, now)
    assert pod is not None  # noqa: S101  one of them is given
    found = namespace or source.namespace
    snapshot = source.snapshot(whole=(found, pod))
    return snapshot, _find(source, snapshot, found, pod)


def _placeless(made: dict[str, Any]) -> bool:
    if made["state"] == "Ending":
        return True
    return "decision" in made and (made["decision"]["chosen"] is None or not made["scheduler"]["ours"])


def _decided(uid: str, where: str | None, snapshot: ClusterSnapshot, token: Callable[[], str]) -> dict[str, Any]:
    """A log's decisions about the pod; a log named by `where` must be readable. token: for a port that asks for one."""
    from hetserve.cli.cluster.client import ClusterError  # noqa: PLC0415
    from hetserve.cli.cluster.extender import read_log  # noqa: PLC0415
    from hetserve.cli.placement.why_log import decisions_about  # noqa: PLC0415
    from hetserve.placement.log.replay import ReplayError  # noqa: PLC0415

    records = snapshot.log if where is None else read_log(where, token)
    if not records:
        return {}
    try:
        decided = list(decisions_about(records, uid))[-_DECISIONS:]
    except ReplayError as error:
        if where is not None:
            raise ClusterError(f"{where}: {error}") from None
        messages.note(f"decisions about the pod are not shown: {error}")
        return {}
    return {
        "decided": [f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" {text}" for at, text in decided]
    }


def _find(source: Source, snapshot: ClusterSnapshot, namespace: str, name: str) -> dict[str, Any]:
    """The pod; a finished one is read alone."""
    from hetserve.cli.cluster.client import ClusterError, pod_path  # noqa: PLC0415

    for raw in snapshot.pods:
        metadata = raw.get("metadata") or {}
        if (metadata.get("namespace", "default"), metadata.get("name")) == (namespace, name):
            return raw
    found = None if source.cluster is None else source.cluster.find(pod_path(namespace, name))
    if found is None:
        raise ClusterError(f"there is no pod {name} in namespace {namespace}; -n NS names another")
    return found
