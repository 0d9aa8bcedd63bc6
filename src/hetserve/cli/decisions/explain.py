"""What the status of a service and its records say together, as a document and for people."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from rich.table import Table

from hetserve.api.conditions import ConditionType
from hetserve.api.kinds import INFERENCE_SERVICE
from hetserve.base.units import Seconds
from hetserve.cli.cluster.client import ClusterClient, ClusterError, absent, namespaced
from hetserve.cli.output import streams
from hetserve.cli.output.streams import show
from hetserve.cli.output.terminal import Block, duration_text, grid, styled
from hetserve.demand.mix import BatchMix
from hetserve.planning.formatting import for_less_text, money_text, qps_text, share_text
from hetserve.planning.plan import read_counts, summary
from hetserve.scaling.decision import Measured
from hetserve.scaling.record.codec import MalformedError
from hetserve.scaling.record.record import DecisionRecord
from hetserve.scaling.record.ring import Ring, record_of_entry, ring_name, ring_of, time_text, told

Json = dict[str, Any]
MOST: Final = 10
"""Decisions listed; others are counted."""
_SHOWN: Final = (
    ConditionType.FEASIBLE,
    ConditionType.WITHIN_BUDGET,
    ConditionType.METRICS_AVAILABLE,
    ConditionType.SCALING_ACTIVE,
    ConditionType.SCALING_LIMITED,
    ConditionType.CAPACITY_AVAILABLE,
)
_LIMITS_IF_TRUE: Final = frozenset((ConditionType.SCALING_LIMITED,))
_PLAN: Final = ("summary", "hourlyCost", "load", "qps", "planner", "tried", "verdict", "mix")
_SECOND: Final = len("2026-01-01T00:00:00")


def run(service: str, namespace: str | None, cluster: ClusterClient, output: str, *, every: bool) -> None:
    """The command, with its options. Raises ClusterError."""
    found = namespace or cluster.namespace
    raw = cluster.find(INFERENCE_SERVICE.path(found, service))
    if raw is None:
        raise absent("InferenceService", found, service)
    made, errors = answer(raw, _ring(cluster, found, service), _now(cluster))
    for error in errors:
        streams.note(f"a record is not shown: {error}")
    show(made, output, lambda: blocks(made, every=every))


def _now(cluster: ClusterClient) -> Seconds | None:
    """None: the API server does not say."""
    try:
        return cluster.time()
    except ClusterError:
        return None


def _ring(cluster: ClusterClient, namespace: str, service: str) -> Ring:
    """The records; without the right to read them, none, with a note."""
    try:
        return ring_of(cluster.find(namespaced("v1", namespace, "configmaps", ring_name(service))))
    except ClusterError as error:
        streams.note(f"records of decisions are not shown: {error}")
        return ()


def answer(service: Json, ring: Ring, now: Seconds | None) -> tuple[Json, list[str]]:
    """The document of the command's help, and what is wrong with records. now: Unix seconds; None: not known."""
    meta, spec, status = (_object(service.get(key)) for key in ("metadata", "spec", "status"))
    plan = _object(status.get("plan"))
    plan |= {"mix": mix_words(plan["mix"], plan.get("mixSince"))} if plan.get("mix") else {}
    records, errors = _listed(ring)
    newest = _newest(ring)
    decisions = _decisions([_object(one) for one in status.get("lastDecisions") or ()], records)
    made = {
        "service": str(meta.get("name")),
        "namespace": str(meta.get("namespace")),
        "mode": spec.get("mode") or "Apply",
        "pause": spec.get("pause") or "None",
        "inForce": {key: plan[key] for key in _PLAN if key in plan} or None,
        "why": next((one["message"] for one in decisions), None),
        "runnerUp": plan.get("runnerUp") or _runner_up(newest, plan),
        "ready": list(status.get("instances") or ()),
        "limits": _limits(status),
        "demand": _demand(status.get("demand"), now),
        "measured": None if newest is None or newest.decision.measured == Measured() else _measured(newest),
        "transition": status.get("transition"),
        "advice": status.get("advice"),
        "decisions": decisions,
        "records": ring_name(str(meta.get("name"))) if ring else None,
    }
    return made, errors


def _listed(ring: Ring) -> tuple[list[Json], list[str]]:
    """What the entries say, the newest first, each with its index; and what is wrong with others."""
    found: list[Json] = []
    errors: list[str] = []
    for index, entry in enumerate(reversed(ring), start=1):
        try:
            content = told(entry)
        except MalformedError as error:
            errors.append(str(error))
            continue
        replays = "notReplayable" not in content
        found.append({"index": index, "replays": replays, **{k: v for k, v in content.items() if k != "record"}})
    return found, errors


def _decisions(recent: list[Json], records: list[Json]) -> list[Json]:
    """Decisions of the status and of the ring, the newest first; one that is in both is said once."""
    made: dict[tuple[str, str], Json] = {}
    for one in records:
        said: Json = {key: one[key] for key in ("time", "action", "reason", "from", "to", "load") if key in one}
        made[_moment(one)] = {
            **said,
            "message": one.get("words", ""),
            "record": one["index"],
            "replays": one["replays"],
        }
    for one in recent:
        known = made.get(_moment(one), {})
        instances = {key: _instances(one.get(key)) for key in ("from", "to")}
        made[_moment(one)] = {**one, **instances, **{key: known[key] for key in ("record", "replays") if key in known}}
    return sorted(made.values(), key=lambda one: str(one.get("time")), reverse=True)


def _instances(told: Any) -> str:
    """Counts of the status in words."""
    try:
        return summary(read_counts(told))
    except (AttributeError, KeyError, TypeError, ValueError):
        return str(told)


def _moment(one: Json) -> tuple[str, str]:
    """The second and the action, by which a decision is known in both places."""
    return str(one.get("time"))[:_SECOND], str(one.get("action"))


def _limits(status: Json) -> list[Json]:
    """Conditions that say what keeps the service from what its load asks for."""
    found = []
    for one in status.get("conditions") or ():
        kind = one.get("type")
        bad = "True" if kind in _LIMITS_IF_TRUE else "False"
        if kind in _SHOWN and one.get("status") == bad:
            found.append({key: one.get(key) for key in ("type", "status", "reason", "message")})
    return found


def _newest(ring: Ring) -> DecisionRecord | None:
    """The newest record that can be read."""
    for entry in reversed(ring):
        try:
            return record_of_entry(entry)
        except MalformedError:
            continue
    return None


def _demand(demand: Any, now: Seconds | None) -> Json | None:
    """What the status says, and how old that is: at rest it was written with the last other change."""
    if not isinstance(demand, Mapping):
        return None
    try:
        at = datetime.fromisoformat(str(demand.get("sampledAt"))).timestamp()
    except (ValueError, OverflowError, OSError):
        return dict(demand)
    return dict(demand) if now is None else {**demand, "ageSeconds": max(round(now - at), 0)}


def _runner_up(record: DecisionRecord | None, in_force: Json) -> str | None:
    """The second best of the plan in force and why not, by its record; else what the best mix for less holds."""
    plan = None if record is None else record.decision.plan
    if plan is None or summary(plan.counts) != in_force.get("summary"):
        return None
    if plan.runner_up is not None:
        words = f"{summary(plan.runner_up.counts)} at {money_text(plan.runner_up.cost)}"
        return f"{words}: {plan.why_not_runner_up}" if plan.why_not_runner_up else words
    return None if plan.cheaper is None else for_less_text(plan.cheaper)


def _measured(record: DecisionRecord) -> Json:
    seen = record.decision.measured
    found: Json = {
        "time": time_text(record.at),
        "lowest": seen.lowest,
        "highest": seen.highest,
        "forecast": seen.forecast,
        "capacity": seen.capacity,
    }
    if record.facts is not None:
        rules = record.facts.rules
        found["saturation"] = rules.saturation
        found |= {"scaleUpWindow": rules.up.window, "scaleDownWindow": rules.down.window}
    return found


def mix_words(mix: object, since: object) -> str:
    """The measured mix that a plan is for: ``2 sizes, 25.0 items on average, 101 at most, since 2026-...Z``."""
    try:
        sizes = BatchMix.of((int(one["batch"]), float(one["share"])) for one in list(mix))  # type: ignore[call-overload]
    except (KeyError, TypeError, ValueError):
        return "measured, and cannot be read"
    mean = math.fsum(batch * share for batch, share in zip(sizes.batches, sizes.shares, strict=True))
    words = f"{len(sizes.batches)} sizes, {mean:.4g} items on average, {sizes.largest} at most"
    return words if since is None else f"{words}, since {since}"


def _object(value: Any) -> Json:
    return dict(value) if isinstance(value, Mapping) else {}


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
        yield "load", _demand_text(made["demand"])
    if made["measured"] is not None:
        yield "windows", _measured_text(made["measured"])
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


def _demand_text(demand: Json) -> str:
    rate = "no rate was ever measured" if demand.get("qps") is None else f"{demand['qps']} q/s"
    at = f", sampled at {demand['sampledAt']}" if demand.get("sampledAt") else ""
    age = f", {duration_text(demand['ageSeconds'])} ago" if "ageSeconds" in demand else ""
    return f"{rate}, {demand.get('freshness')}{at}{age}"


def _measured_text(seen: Json) -> str:
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
