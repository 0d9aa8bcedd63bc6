"""`hetserve decision`: recorded decisions of scaling."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from hetserve.cli.output.documents import FORMATS
from hetserve.cli.output.messages import refuse

if TYPE_CHECKING:
    from hetserve.scaling.record.record import DecisionRecord
    from hetserve.scaling.record.replay import ReplayedDecision

EXIT_DIFFERS: Final = 1


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
    from hetserve.base.files import shown_name  # noqa: PLC0415
    from hetserve.cli.decisions.recorded import NoRecordError, read_record  # noqa: PLC0415
    from hetserve.cli.decisions.replay_text import blocks, document  # noqa: PLC0415
    from hetserve.cli.output.documents import dump  # noqa: PLC0415
    from hetserve.cli.output.terminal import text_of  # noqa: PLC0415
    from hetserve.scaling.record.replay import NotReplayableError  # noqa: PLC0415

    try:
        record = read_record(file, index)
    except NoRecordError as error:
        refuse(str(error))
    try:
        found = _replayed(record, as_recorded=as_recorded)
    except NotReplayableError as error:
        refuse(f"{shown_name(file)}: record.facts: {error}; give another record")
    made = document(record, found)
    click.echo(text_of(blocks(made)) if output == "table" else dump([made], output), nl=False)
    sys.exit(0 if found.identical else EXIT_DIFFERS)


def _replayed(record: DecisionRecord, *, as_recorded: bool) -> ReplayedDecision:
    from hetserve.cli.output.progress import steps  # noqa: PLC0415
    from hetserve.scaling.plans.answers import Answers  # noqa: PLC0415
    from hetserve.scaling.record.replay import replay as again  # noqa: PLC0415

    with steps(record.service, max(len(record.questions), 1)) as shown:
        planner = Answers(worked_out=lambda work: shown.busy(f"planned for {work.problem.load or 0:.1f} q/s"))
        return again(record, planner, Answers(quick=True), as_recorded=as_recorded)
