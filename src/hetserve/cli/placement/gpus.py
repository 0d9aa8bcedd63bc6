"""`hetserve gpus`: draws every GPU with its pods."""

from __future__ import annotations

import click

from hetserve.cli.cluster.snapshot import source_options
from hetserve.cli.output.documents import view_option


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
