"""`hetserve gpus`: draws every GPU with its pods."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from hetserve.cli.cluster.snapshot import source_options
from hetserve.cli.output.documents import view_option

if TYPE_CHECKING:
    from hetserve.cli.cluster.snapshot import Source
    from hetserve.placement.placer import Placer

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


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
    from hetserve.cli.cluster.snapshot import Source  # noqa: PLC0415
    from hetserve.cli.placement.placed import placer_of  # noqa: PLC0415

    if watch and plot is not None:
        raise click.UsageError("--plot draws one picture: it cannot be given with --watch")
    source = Source.of(**source_of)
    if watch:
        _watch(source, nodes, output)
        return
    snapshot = source.snapshot()
    placer = placer_of(snapshot)
    if plot is not None:
        _plot(placer, nodes, plot)
    click.echo(render(placer, nodes, output, snapshot.taken_at), nl=False)


def render(placer: Placer, nodes: tuple[str, ...], output: str, taken_at: float | None) -> str:
    """Raises ClusterError if a node does not exist."""
    from hetserve.cli.cluster.client import ClusterError  # noqa: PLC0415
    from hetserve.cli.output.documents import dump  # noqa: PLC0415
    from hetserve.cli.output.terminal import text_of  # noqa: PLC0415
    from hetserve.cli.placement.gpus_picture import blocks  # noqa: PLC0415
    from hetserve.cli.placement.placed import gpus_document  # noqa: PLC0415

    for node in nodes:
        if placer.ledger.node(node) is None:
            raise ClusterError(f"--node {node}: no such node")
    document: dict[str, Any] = gpus_document(placer, nodes, taken_at)
    if output in {"json", "yaml"}:
        return dump([document], output)
    return text_of(blocks(document, wide=output == "wide"))


def _watch(source: Source, nodes: tuple[str, ...], output: str) -> None:
    from hetserve.cli.placement.watch import follow  # noqa: PLC0415

    drawn = ""
    try:
        for placer in follow(source.live()):
            text = render(placer, nodes, output, None)
            if text != drawn:
                click.echo((_CLEAR if sys.stdout.isatty() else "") + text, nl=False)
                drawn = text
    except KeyboardInterrupt:
        return


def _plot(placer: Placer, nodes: tuple[str, ...], path: str) -> None:
    from hetserve.cli.output.plots import draw_or_refuse  # noqa: PLC0415
    from hetserve.cli.placement.gpus_plot import draw  # noqa: PLC0415
    from hetserve.cli.placement.placed import gpus_document  # noqa: PLC0415

    document = gpus_document(placer, nodes)
    draw_or_refuse(lambda: draw(document, path), path)
