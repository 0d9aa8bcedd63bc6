"""The recorded plan in status.plan, which survives restarts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hetserve.base.units import MicroDollarsPerHour, format_money, parse_money
from hetserve.planning.plan import Counts, Plan

Json = dict[str, Any]
_LONG, _SHORT = 4096, 2048


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """A plan in force. raw: status.plan as stored; counts: types with instances; cost: as recorded."""

    raw: Json
    counts: Counts
    inputs: str
    qps: str
    verdict: str
    cost: MicroDollarsPerHour

    @property
    def nonzero(self) -> dict[str, int]:
        return {name: n for name, n in self.counts if n > 0}

    @property
    def described(self) -> str:
        """One line for people: counts, price, figure, planner, and the runner-up."""
        raw = self.raw
        line = f"{raw['summary']} at {raw['hourlyCost']} $/h for {raw['qps']} q/s ({raw['planner']})"
        return line if not raw.get("runnerUp") else f"{line}; runner-up: {raw['runnerUp']}"


def summary(counts: Counts) -> str:
    """Counts as people read them: ``1xg4dn.xlarge+13xr5n.large``."""
    return "+".join(f"{n}x{name}" for name, n in counts if n > 0) or "none"


def plan_record(plan: Plan, inputs: str) -> PlanRecord:
    """Record of a feasible plan; inputs: digest of the problem."""
    verdict = (plan.verdict or plan.message)[:_LONG]
    raw: Json = {
        "counts": [{"instanceType": name, "count": n} for name, n in plan.counts if n > 0],
        "summary": summary(plan.counts)[:_SHORT],
        "hourlyCost": format_money(plan.cost),
        "qps": f"{plan.qps or 0.0:.1f}",
        "planner": plan.planner,
        "verdict": verdict,
        "inputs": inputs,
    }
    if plan.runner_up is not None:
        rival = plan.runner_up
        text = f"{summary(rival.counts)} at {format_money(rival.cost)} $/h for {rival.qps:.1f} q/s"
        raw["runnerUp"] = f"{text}: {plan.why_not_runner_up}"[:_SHORT] if plan.why_not_runner_up else text[:_SHORT]
    counts = tuple((name, n) for name, n in plan.counts if n > 0)
    return PlanRecord(raw, counts, inputs, raw["qps"], verdict, plan.cost)


def read_record(service: Mapping[str, Any]) -> PlanRecord | None:
    """Plan in the status of a raw service; None if there is none or it is invalid."""
    status = service.get("status")
    raw = status.get("plan") if isinstance(status, Mapping) else None
    if not isinstance(raw, Mapping):
        return None
    try:
        counts = tuple((str(entry["instanceType"]), int(entry["count"])) for entry in raw["counts"])
        texts = {key: str(raw[key]) for key in ("summary", "hourlyCost", "qps", "planner", "inputs")}
        cost, figure = parse_money(texts["hourlyCost"]), float(texts["qps"])
    except (KeyError, TypeError, ValueError):
        return None
    if not math.isfinite(figure) or any(n < 0 for _, n in counts) or summary(counts)[:_SHORT] != texts["summary"]:
        return None
    return PlanRecord(dict(raw), counts, texts["inputs"], texts["qps"], str(raw.get("verdict") or ""), cost)
