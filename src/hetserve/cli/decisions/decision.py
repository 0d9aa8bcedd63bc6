"""`hetserve decision`: recorded decisions of scaling."""

from __future__ import annotations

import click

from hetserve.cli.output.documents import FORMATS


@click.group()
def decision() -> None:
    """Make recorded decisions of scaling again."""


@decision.command()
@click.argument("file", metavar="RECORD.json")
@click.option("--index", type=click.IntRange(min=1), help="Of a ring's records; 1 is the newest. Default: 1.")
@click.option("--as-recorded", is_flag=True, help="Take the planners' recorded answers, instead of planning anew.")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="table", show_default=True)
def replay(file: str, index: int | None, *, as_recorded: bool, output: str) -> None:
    """Make the decision of RECORD.json again, by the same core and planners, and say whether it is identical, or what
    differs, field by field.

    RECORD.json is a record, or the ConfigMap SERVICE-decisions as kubectl prints it (-o json or yaml); - is stdin.
    Planners are asked anew, but where none had answered when the decision was made: such answers are taken from the
    record, and named. --as-recorded takes them all: what differs then is not the planners.

    \b
    Keys of -o json and yaml: service, namespace, time, action, reason, from, to, identical, versions {recorded, here},
      questions [question, answeredBy (Planner or Record), why], differences [field, recorded, now].
    \b
    Exit code: 0 identical, 1 something differs, 2 bad input.

    \b
    Examples:
      kubectl get configmap web-decisions -o json | hetserve decision replay -
      hetserve decision replay ring.yaml --index 3
    """
    from hetserve.cli.decisions.recorded import run  # noqa: PLC0415

    run(file, index, output, as_recorded=as_recorded)
