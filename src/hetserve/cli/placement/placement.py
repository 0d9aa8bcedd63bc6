"""`hetserve placement`: dumps, and replays placement logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetserve.cli.cluster.snapshot import cluster_options, source_options, system_option
from hetserve.cli.output import messages
from hetserve.registry.placement_policies import PLACEMENT_POLICIES

if TYPE_CHECKING:
    from hetserve.cli.cluster.extender import Record
    from hetserve.cli.cluster.snapshot import Source


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
    from hetserve.cli.cluster.client import ClusterError  # noqa: PLC0415
    from hetserve.cli.cluster.snapshot import Source, dump_document  # noqa: PLC0415

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
    from hetserve.cli.cluster.client import ClusterError  # noqa: PLC0415
    from hetserve.cli.cluster.extender import (  # noqa: PLC0415
        live_log,
        read_log,
        reader_token_of,
        system_namespace,
    )

    if where is not None:
        return read_log(where, lambda: reader_token_of(source.cluster, named))
    if source.cluster is None:
        return []
    try:
        return live_log(source.cluster, system_namespace(source.cluster, named))
    except ClusterError as error:
        messages.note(f"no placement log in this dump: {error.message}")
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
