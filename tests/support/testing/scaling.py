"""Builders of what a scaling decision stands on; every field can be overridden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hetserve.base.units import QPS, Seconds, parse_money
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample
from hetserve.planning import Problem, TypeOption
from hetserve.scaling import Direction, Facts, InForce, ScalingRules, StepLimit
from testing.planning import hetsev_types, min_cost

NOW = 1_000_000.0
STEP = 15.0
LAUNCH = 60.0


def measured(rates: Iterable[float | None], **fields: Any) -> Demand:
    """Fresh demand with a sample each 15 s, the last one now; None: that sample is missing.

    attained: shares of queries in time, as rates. ended: queries behind each share; absent: not known.
    """
    now, ended = fields.pop("now", NOW), fields.pop("ended", None)
    attained = tuple(ShareSample(at, share, ended) for at, share in _ending(fields.pop("attained", ()), now))
    samples = tuple(RateSample(at, QPS(rate)) for at, rate in _ending(rates, now))
    return Demand(Freshness.FRESH, now=now, samples=samples, step=Seconds(STEP), attained=attained, **fields)


def _ending(values: Iterable[float | None], now: float) -> list[tuple[float, float]]:
    given = list(values)
    first = now - (len(given) - 1) * STEP
    return [(first + i * STEP, value) for i, value in enumerate(given) if value is not None]


def steady(rate: float, seconds: float = 600.0, **fields: Any) -> Demand:
    """The same rate [queries/s] for so long."""
    return measured([rate] * (int(seconds / STEP) + 1), **fields)


def scaled_problem(types: Sequence[TypeOption] | None = None, **fields: Any) -> Problem:
    """HetSev's V100 and T4 (50 and 25 q/s), launched in 60 s, planned by planner ilp, which counts rates.

    budget: $/h as text.
    """
    options = hetsev_types(launch_time=Seconds(LAUNCH)) if types is None else types
    settings = {"planner": "ilp", **fields}
    if isinstance(settings.get("budget"), str):
        settings["budget"] = parse_money(settings["budget"])
    return replace(min_cost(options, 1.0, **settings), load=None)


def facts(demand: Demand, held: Mapping[str, int] | None = None, load: float | None = None, **fields: Any) -> Facts:
    """Facts of a service whose plan in force is `held`, all Ready; None: nothing was planned yet.

    load: queries/s that it was made for. rules: fields of `ScalingRules`. The planner is ilp.
    """
    problem = fields.pop("problem", None) or scaled_problem()
    counts = tuple((option.name, (held or {}).get(option.name, 0)) for option in problem.types)
    in_force = None if held is None else InForce(counts, None if load is None else QPS(load))
    running = dict(counts) if held is not None else {}
    rules = fields.pop("rules", ScalingRules())
    return Facts(NOW, rules, demand, problem, **{"in_force": in_force, "ready": running, "bound": running, **fields})


def limited(window: float, *limits: StepLimit, **fields: Any) -> Direction:
    """A direction with step policies. window: stabilization [s]."""
    return Direction(Seconds(window), limits, **fields)


def at_most(value: int, period: float = 60.0, *, percent: bool = False) -> StepLimit:
    """A step policy: so many instances (or percent) within a period [s]."""
    return StepLimit("Percent" if percent else "Instances", value, Seconds(period))
