"""`hetserve placement replay`: a placement log decided again, or under several policies."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Final

import click

from hetserve.cli.cluster.client import ClusterError
from hetserve.cli.cluster.extender import Record, read_log, reader_token_of
from hetserve.cli.output.streams import dump, show
from hetserve.cli.output.terminal import Block, grid
from hetserve.placement.log.journal import COMPARED
from hetserve.placement.log.replay import LogReplay, ReplayError, logged_policy, replay
from hetserve.placement.log.what_if import WhatIf, what_if
from hetserve.placement.pods.requests import policy_name

EXIT_DIFFERENT: Final = 1
_ROWS: Final[tuple[tuple[str, Callable[[WhatIf], str]], ...]] = (
    ("pods that arrived", lambda one: str(one.arrived)),
    ("placed", lambda one: str(one.placed)),
    ("placed before the first refusal", lambda one: str(one.placed_before_refusal)),
    ("refused at first", lambda one: str(one.refused)),
    ("never placed", lambda one: str(one.never_placed)),
    ("longest wait for a place, s", lambda one: f"{one.longest_wait:.1f}"),
    ("most pods on one GPU", lambda one: str(one.most_pods_on_a_gpu)),
    ("largest free share at the end, MiB", lambda one: str(one.largest_free)),
    ("fragmentation at the end", lambda one: "-" if one.fragmentation is None else f"{one.fragmentation:.0%}"),
)


def run(log: str, policy: str | None, output: str, **kubeconfig: str | None) -> None:
    """The command, with its options. Raises ClusterError."""
    records = read_log(log, partial(reader_token_of, None, None, **kubeconfig))
    try:
        if policy is not None:
            _compare_policies(records, policy, output)
        else:
            _show(replay(records), output)
    except ReplayError as error:
        raise ClusterError(f"{log}: {error}") from None


def _show(replayed: LogReplay, output: str) -> None:
    difference = replayed.difference
    if output != "text":
        click.echo(dump([{"identical": difference is None, **asdict(replayed)}], output), nl=False)
    elif difference is None:
        click.echo(f"{replayed.records} records, {replayed.decisions} of them decisions: all the same again")
    else:
        shown = (*COMPARED, "message")
        logged, now = ({key: one[key] for key in shown if key in one} for one in (difference.logged, difference.now))
        click.echo(f"record {difference.number} is decided otherwise: {json.dumps(_subject(difference.logged))}")
        click.echo(f"  logged  {json.dumps(logged)}\n  now     {json.dumps(now)}")
    sys.exit(0 if difference is None else EXIT_DIFFERENT)


def _subject(record: Record) -> Record:
    args = record.get("args") or {}
    raw, request = (args.get("raw") or {}).get("metadata") or {}, args.get("request") or {}
    about = {key: raw.get(key) or request.get(key) for key in ("namespace", "name", "uid")}
    found = {key: value for key, value in about.items() if value} or {"uid": args.get("uid")}
    return {"call": record.get("call"), **found}


def _compare_policies(records: list[Record], policy: str, output: str) -> None:
    """The log's own policy beside another one, both by `what_if`."""
    courses = [what_if(records, one) for one in dict.fromkeys((logged_policy(records), policy_name(policy)))]
    show({"policies": [asdict(course) for course in courses]}, output, lambda: [_block(courses)])


def _block(courses: Sequence[WhatIf]) -> Block:
    """A column per policy; the log's own first."""
    table = grid("", *(f">{one.policy}{' (as it was)' if one is courses[0] else ''}" for one in courses))
    for label, value in _ROWS:
        table.add_row(label, *(value(course) for course in courses))
    lines = (("model", "placed at once where there is room, waiting pods first when room comes"),)
    return Block("the pods of this log under each policy", lines, (table,))
