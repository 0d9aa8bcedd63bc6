"""What only a flow plan has, as a document and in words: its flow, its prices, its next steps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any

from hetserve.base.units import format_money
from hetserve.planning import Plan, RankedConfiguration
from hetserve.planning.formatting import batches_text, for_less_text, money_text, qps_text, share_text, step_text
from hetserve.planning.plan import ClassFlow, EvaluatedConfiguration, MarginalValues


def flow_document(plan: Plan) -> dict[str, Any]:
    """Keys of `-o json`."""
    rounded = {"heldQPS": plan.held_qps, "ceilingQPS": plan.ceiling_qps}
    return {
        "tried": plan.tried,
        **{key: None if value is None else round(value, 6) for key, value in rounded.items()},
        "floorCost": None if plan.floor_cost is None else format_money(plan.floor_cost),
        "flow": [
            {"type": one.type, "first": one.first, "last": one.last, "qps": round(one.qps, 6)} for one in spans(plan)
        ],
        "prices": None if plan.prices is None else _prices(plan.prices),
        "cheaper": None if plan.cheaper is None else _cheaper(plan, plan.cheaper),
    }


def _prices(prices: MarginalValues) -> dict[str, Any]:
    binding, cost = prices.binding, prices.query_cost
    return {
        "perInstanceQPS": {name: round(gain, 6) for name, gain in prices.instances},
        "perDollarQPS": round(prices.dollar, 6),
        "bestType": prices.best,
        "perQPS": None if cost is None else format_money(cost),
        "binding": None
        if binding is None
        else {
            "first": binding.first,
            "last": binding.last,
            "queries": round(binding.queries, 6),
            "price": round(binding.price, 6),
            "type": binding.type,
        },
    }


def candidate(plan: Plan, entry: RankedConfiguration) -> dict[str, Any]:
    """A configuration beside others of the plan."""
    return {"counts": dict(entry.counts), "cost": format_money(entry.cost), **rate(plan, entry.qps)}


def rate(plan: Plan, qps: float | None) -> dict[str, float]:
    """By the name of what the planner knows; empty: nothing."""
    return {} if qps is None else {"boundQPS" if plan.bound_qps is not None else "capacityQPS": round(qps, 6)}


def _cheaper(plan: Plan, one: EvaluatedConfiguration) -> dict[str, Any]:
    return {
        **candidate(plan, one.candidate),
        "simulatedQPS": round(one.held, 6) if one.held else None,
        "breaksAtQPS": None if one.held or one.below is None else round(one.below, 6),
    }


def spans(plan: Plan) -> list[ClassFlow]:
    """The flow with neighbouring classes of one type as one."""
    ends = sorted({(one.first, one.last) for one in plan.flow})
    place = {end: number for number, end in enumerate(ends)}
    found: list[ClassFlow] = []
    order = [name for name, _ in plan.counts]
    mine = sorted(plan.flow, key=lambda one: (order.index(one.type), one.first))
    runs = groupby(enumerate(mine), key=lambda pair: (pair[1].type, pair[0] - place[pair[1].first, pair[1].last]))
    for (name, _), run in runs:
        classes = [one for _, one in run]
        total = sum((one.qps for one in classes), start=type(classes[0].qps)(0.0))
        found.append(ClassFlow(name, classes[0].first, classes[-1].last, total))
    return found


def served_batches(plan: Plan, name: str) -> str:
    """``serves 93.1 % of the queries: batches 10 to 690``."""
    mine, total = [one for one in spans(plan) if one.type == name], sum(one.qps for one in plan.flow)
    if not mine:
        return "has nothing to serve at this rate"
    batches = ", ".join(batches_text(one.first, one.last) for one in mine[:3])
    more = ", ..." if len(mine) > 3 else ""
    return f"serves {share_text(sum(one.qps for one in mine) / total)} of the queries: {batches}{more}"


def flow_lines(plan: Plan) -> Iterator[tuple[str, str]]:
    """(label, text) of a flow plan: none of another."""
    if plan.tried is None:
        return
    if plan.prices is not None:
        yield "prices", "; ".join(_price_parts(plan.prices))
    if plan.next_step is not None:
        yield "next", step_text(plan.next_step).removeprefix("next: ")
    if plan.cheaper is not None:
        yield "for less", for_less_text(plan.cheaper)


def _price_parts(prices: MarginalValues) -> Iterator[str]:
    binding, cost = prices.binding, prices.query_cost
    if binding is not None:
        batches = batches_text(binding.first, binding.last)
        yield (
            f"{batches}, {share_text(binding.queries)} of the queries, carry {share_text(binding.price)} of the price, "
            f"most of them on {binding.type}"
        )
    if cost is not None:
        most = f"1 $/h more adds at most {qps_text(prices.dollar)} ({prices.best})"
        yield f"{most}, 1 q/s more costs at least {money_text(cost)}"
