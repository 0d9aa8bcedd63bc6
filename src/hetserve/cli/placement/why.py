"""`hetserve why POD`: where a pod is, or why it is not placed; `-f` asks before it is created."""

from __future__ import annotations

from typing import Any

import click

from hetserve.cli.cluster.snapshot import source_options, system_option
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, default_placement_policy


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
