"""`hetserve why POD`: where a pod is, or why it is not placed."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import click

from hetserve.cli.cluster.snapshot import source_options, system_option
from hetserve.cli.output import messages
from hetserve.cli.output.messages import EXIT_INFEASIBLE
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, default_placement_policy

if TYPE_CHECKING:
    from hetserve.cli.cluster.snapshot import ClusterSnapshot, Source

_DECISIONS: Final = 4


@click.command()
@click.argument("pod")
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
def why(pod: str, namespace: str | None, every: bool, output: str, **given: str | None) -> None:
    """Say where POD is and beside whom, or why it is not placed yet: which GPUs would fit now, which it would get,
    and for every other what is in the way.

    The decision is made by the scheduler extender's own code over the cluster as it is now. What the kube-scheduler
    judges besides (affinity, CPU, volumes, ...) is named where it is not looked at.

    \b
    Exit code: 0 the pod holds a GPU, needs none, or would get one now; 3 no GPU fits, the pod is ending without
    one, or it names another scheduler; 2 it cannot be read.

    \b
    Examples:
      hetserve why my-model-7d9f
      hetserve why -n team my-model-7d9f --all
      hetserve why --from dump.json -o json my-model-7d9f
    """
    from hetserve.cli.cluster.extender import extender_settings  # noqa: PLC0415
    from hetserve.cli.cluster.snapshot import Source  # noqa: PLC0415
    from hetserve.cli.output.documents import dump  # noqa: PLC0415
    from hetserve.cli.output.terminal import text_of  # noqa: PLC0415
    from hetserve.cli.placement.why_answer import answer  # noqa: PLC0415
    from hetserve.cli.placement.why_text import blocks  # noqa: PLC0415
    from hetserve.placement import DEFAULT_POLICY, QueueSettings, policy_name  # noqa: PLC0415

    policy, log, system = given.pop("policy"), given.pop("log"), str(given.pop("system_namespace"))
    source = Source.of(**given)
    namespace = namespace or source.namespace
    snapshot = source.snapshot(whole=(namespace, pod))
    raw = _find(source, snapshot, namespace, pod)
    installed = extender_settings(source.cluster, system)
    beta = int((installed.get("queue") or {}).get("beta", QueueSettings().beta))
    made = answer(raw, snapshot, policy_name(policy or installed.get("policy", DEFAULT_POLICY)), beta)
    made |= _decided(str(made["pod"]["uid"]), log, snapshot)
    click.echo(dump([made], output) if output != "table" else text_of(blocks(made, every=every)), nl=False)
    if made["state"] == "Unreadable":
        sys.exit(2)
    sys.exit(EXIT_INFEASIBLE if _placeless(made) else 0)


def _placeless(made: dict[str, Any]) -> bool:
    if made["state"] == "Ending":
        return True
    return "decision" in made and (made["decision"]["chosen"] is None or not made["scheduler"]["ours"])


def _decided(uid: str, where: str | None, snapshot: ClusterSnapshot) -> dict[str, Any]:
    """A log's decisions about the pod; a log named by `where` must be readable."""
    from hetserve.cli.cluster.client import ClusterError  # noqa: PLC0415
    from hetserve.cli.cluster.extender import read_log  # noqa: PLC0415
    from hetserve.cli.placement.why_log import decisions_about  # noqa: PLC0415
    from hetserve.placement.log.replay import ReplayError  # noqa: PLC0415

    records = snapshot.log if where is None else read_log(where)
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
