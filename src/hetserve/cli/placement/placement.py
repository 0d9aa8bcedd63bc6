"""`hetserve placement`: dumps, and replays placement logs."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hetserve.cli.cluster.snapshot import source_options, system_option
from hetserve.cli.output import messages
from hetserve.registry.placement_policies import PLACEMENT_POLICIES

if TYPE_CHECKING:
    from hetserve.cli.cluster.extender import Record
    from hetserve.cli.cluster.snapshot import Source
    from hetserve.placement.log.replay import LogReplay

EXIT_DIFFERENT: Final = 1


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
    from hetserve.cli.cluster.extender import live_log, read_log, reader_token_of  # noqa: PLC0415
    from hetserve.cli.cluster.installation import system_namespace  # noqa: PLC0415

    if where is not None:
        return read_log(where, lambda: reader_token_of(source.cluster, system_namespace(source.cluster, named)))
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
@click.option("--kubeconfig", metavar="FILE", help="For the token of a URL that asks for one; default as of `dump`.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig; default: the current one.")
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def replay(log: str, policy: str | None, output: str, kubeconfig: str | None, context: str | None) -> None:
    """Run a placement log through the same code again and compare every decision with the logged one.

    FILE is a dump, or what the extender's /log serves (- is stdin).

    \b
    Exit code: 0 every decision is the same, 1 one is not (it is printed as it was and as it is now), 2 no log.

    \b
    Examples:
      hetserve placement replay dump.json
      hetserve placement replay http://127.0.0.1:8889/log
      hetserve placement replay dump.json --policy BestFit
    """
    from hetserve.cli.cluster.client import ClusterClient, ClusterError  # noqa: PLC0415
    from hetserve.cli.cluster.extender import read_log  # noqa: PLC0415
    from hetserve.cli.cluster.installation import system_namespace  # noqa: PLC0415
    from hetserve.cli.cluster.reader_token import reader_token  # noqa: PLC0415
    from hetserve.placement.log.replay import ReplayError  # noqa: PLC0415

    def token() -> str:
        cluster = ClusterClient.connect(kubeconfig, context)
        return reader_token(cluster, system_namespace(cluster, None))

    records = read_log(log, token)
    try:
        if policy is not None:
            _compare_policies(records, policy, output)
            return
        from hetserve.placement.log.replay import replay as again  # noqa: PLC0415

        _show(again(records), output)
    except ReplayError as error:
        raise ClusterError(f"{log}: {error}") from None


def _show(replayed: LogReplay, output: str) -> None:
    from hetserve.cli.output.documents import dump as as_text  # noqa: PLC0415
    from hetserve.placement.log.journal import COMPARED  # noqa: PLC0415

    difference = replayed.difference
    if output != "text":
        click.echo(as_text([{"identical": difference is None, **asdict(replayed)}], output), nl=False)
    elif difference is None:
        click.echo(f"{replayed.records} records, {replayed.decisions} of them decisions: all the same again")
    else:
        shown = (*COMPARED, "message")
        logged, now = ({key: one[key] for key in shown if key in one} for one in _both(difference))
        click.echo(f"record {difference.number} is decided otherwise: {json.dumps(_subject(difference.logged))}")
        click.echo(f"  logged  {json.dumps(logged)}\n  now     {json.dumps(now)}")
    sys.exit(0 if difference is None else EXIT_DIFFERENT)


def _both(difference: Any) -> tuple[Record, Record]:
    return difference.logged, difference.now


def _subject(record: Record) -> Record:
    args = record.get("args") or {}
    raw, request = (args.get("raw") or {}).get("metadata") or {}, args.get("request") or {}
    about = {key: raw.get(key) or request.get(key) for key in ("namespace", "name", "uid")}
    found = {key: value for key, value in about.items() if value} or {"uid": args.get("uid")}
    return {"call": record.get("call"), **found}


def _compare_policies(records: list[Record], policy: str, output: str) -> None:
    """The log's own policy beside another one, both by `what_if`."""
    from hetserve.cli.output.documents import dump as as_text  # noqa: PLC0415
    from hetserve.cli.output.terminal import text_of  # noqa: PLC0415
    from hetserve.cli.placement.what_if_table import block  # noqa: PLC0415
    from hetserve.placement.log.replay import logged_policy  # noqa: PLC0415
    from hetserve.placement.log.what_if import what_if  # noqa: PLC0415
    from hetserve.placement.pods.requests import policy_name  # noqa: PLC0415

    courses = [what_if(records, one) for one in dict.fromkeys((logged_policy(records), policy_name(policy)))]
    if output == "text":
        click.echo(text_of([block(courses)]), nl=False)
        return
    documents = [asdict(course) for course in courses]
    click.echo(as_text([{"policies": documents}], output), nl=False)
