"""The answer of `hetserve explain` for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from rich.table import Table

from hetserve.cli.output.terminal import Block, duration_text, grid, styled
from hetserve.planning.formatting import qps_text, share_text

MOST: Final = 10
"""Decisions listed; others are counted."""
Json = Mapping[str, Any]


def blocks(made: Json, *, every: bool) -> list[Block]:
    """The document in words. every: list all decisions."""
    title = f"service {made['namespace']}/{made['service']}"
    tables = (_table(made["decisions"], every=every),) if made["decisions"] else ()
    return [Block(title, tuple(_lines(made)), tables)]


def _lines(made: Json) -> Iterator[tuple[str, str]]:
    yield "in force", _in_force(made["inForce"])
    if made["inForce"] is not None and "mix" in made["inForce"]:
        yield "batch sizes", f"as measured: {made['inForce']['mix']}"
    if made["ready"]:
        yield (
            "ready",
            ", ".join(
                f"{one.get('ready', 0)} of {one.get('desired', 0)} {one['instanceType']}" for one in made["ready"]
            ),
        )
    yield "why", made["why"] or "no change is recorded"
    yield "runner-up", made["runnerUp"] or "none is recorded"
    yield from (
        ("limits", f"{one['type']} is {one['status']}, {one['reason']}: {one['message']}") for one in made["limits"]
    )
    if not made["limits"]:
        yield "limits", "nothing"
    if made["pause"] != "None":
        yield "pause", made["pause"]
    if made["demand"] is not None:
        yield "load", _demand(made["demand"])
    if made["measured"] is not None:
        yield "windows", _measured(made["measured"])
    if made["transition"] is not None:
        step = made["transition"]
        yield "under way", f"step {step['step']} of {step['of']}: {step['doing']}"
    if made["mode"] != "Apply":
        yield "mode", f"{made['mode']}: nothing but the status is written"
    if made["advice"] is not None:
        advice = made["advice"]
        yield "advice", f"{advice['summary']} at {advice['hourlyCost']} $/h: {advice['message']}"
    if made["records"] is None:
        yield "records", "none; changes from now on are recorded"
    else:
        yield "records", f"ConfigMap {made['records']}"


def _in_force(plan: Json | None) -> str:
    if plan is None:
        return "no plan"
    load = f" for {plan['load']} q/s" if "load" in plan else ""
    untried = f"{'provisional, ' if plan.get('provisional') else ''}not tried in simulation"
    holds = f", {untried if plan.get('tried') is False else 'holds ' + str(plan.get('qps')) + ' q/s'}"
    return f"{plan.get('summary')} at {plan.get('hourlyCost')} $/h{load}{holds}, by planner {plan.get('planner')}"


def _demand(demand: Json) -> str:
    rate = "no rate was ever measured" if demand.get("qps") is None else f"{demand['qps']} q/s"
    at = f", sampled at {demand['sampledAt']}" if demand.get("sampledAt") else ""
    age = f", {duration_text(demand['ageSeconds'])} ago" if "ageSeconds" in demand else ""
    return f"{rate}, {demand.get('freshness')}{at}{age}"


def _measured(seen: Json) -> str:
    """What the newest recorded decision saw of the windows."""

    def rate(key: str) -> str:
        return "an unknown rate" if seen[key] is None else qps_text(seen[key])

    up, down = (f" of {seen[key]:g} s" if key in seen else "" for key in ("scaleUpWindow", "scaleDownWindow"))
    used = f", of which {share_text(seen['saturation'])} are used" if "saturation" in seen else ""
    return (
        f"at {second_text(seen['time'])}: at least {rate('lowest')} in that of scaling up{up}, at most "
        f"{rate('highest')} in that of scaling down{down}, {rate('forecast')} expected when new instances serve; "
        f"what was in force held {rate('capacity')}{used}"
    )


def second_text(time: object) -> str:
    """A time as the API writes it, to the second: ``2026-11-23T13:00:00Z``."""
    text = str(time)
    return text if "." not in text else f"{text.partition('.')[0]}Z"


def _table(decisions: list[Json], *, every: bool) -> Table:
    table = grid("RECORD", "TIME", "ACTION", "REASON", "INSTANCES", "WHY")
    shown = decisions if every else decisions[:MOST]
    for one in shown:
        record = "-" if "record" not in one else f"{one['record']}{'' if one['replays'] else ', not replayable'}"
        change = f"{one.get('from') or 'none'} -> {one.get('to') or 'none'}"
        table.add_row(
            record,
            second_text(one.get("time")),
            str(one.get("action")),
            str(one.get("reason")),
            change,
            str(one.get("message", "")),
        )
    if len(decisions) > len(shown):
        table.add_row("", styled(f"{len(decisions) - len(shown)} more; --all lists them", "dim"), "", "", "", "")
    return table
