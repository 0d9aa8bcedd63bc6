"""Hypothesis strategies of scaling decisions: small services, rich in edges, planned by planner ilp."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds
from hetserve.demand.observed import Demand, Freshness
from hetserve.planning import TypeOption
from hetserve.scaling import Action, Change, Direction, Facts, Pause, ScalingReason, ScalingRules, StepLimit
from testing.planning import line, option
from testing.scaling import NOW, facts, measured, scaled_problem

_NAMES = ("alpha", "beta", "gamma")


@st.composite
def service_types(draw: st.DrawFn) -> tuple[TypeOption, ...]:
    """One to three types of whole rates and cents; one serves for sure."""
    names = _NAMES[: draw(st.integers(1, 3))]
    return tuple(
        option(
            name,
            f"0.{draw(st.integers(1, 9))}",
            line(draw(st.sampled_from([10, 20, 40, 50]))),
            max_instances=draw(st.sampled_from([None, None, 6])),
            launch_time=Seconds(draw(st.sampled_from([0.0, 60.0, 300.0]))),
        )
        for name in names
    )


@st.composite
def step_limits(draw: st.DrawFn) -> StepLimit:
    """One to five instances, or some percent, in up to five minutes."""
    period = Seconds(draw(st.sampled_from([15.0, 60.0, 300.0])))
    if draw(st.booleans()):
        return StepLimit("Instances", draw(st.integers(1, 5)), period)
    return StepLimit("Percent", draw(st.sampled_from([10, 50, 100])), period)


@st.composite
def scaling_rules(draw: st.DrawFn, *, limited: bool = True) -> ScalingRules:
    """Rules with or without totals and step policies."""
    least = draw(st.integers(1, 3))

    def direction(*windows: float) -> Direction:
        limits = tuple(draw(st.lists(step_limits(), max_size=2))) if limited else ()
        return Direction(Seconds(draw(st.sampled_from(windows))), limits, draw(st.sampled_from(["Max", "Min"])))

    return ScalingRules(
        least=least,
        most=draw(st.none() | st.integers(least, 12)) if limited else None,
        saturation=draw(st.sampled_from([0.5, 0.8, 1.0])),
        tolerance=draw(st.sampled_from([0.0, 0.1, 0.3])),
        up=direction(0.0, 30.0, 60.0),
        look_ahead=draw(st.booleans()),
        down=direction(0.0, 60.0, 300.0),
        replaces=limited and draw(st.booleans()),
    )


@st.composite
def demands(draw: st.DrawFn, *, whole: bool = False) -> Demand:
    """Up to ten minutes of rates, sometimes with gaps, sometimes not Fresh; whole: neither."""
    level = draw(st.sampled_from([0.0, 1.0, 20.0, 80.0, 300.0]))
    factors = draw(st.lists(st.sampled_from([0.0, 0.9, 1.0, 1.1, 2.0]), min_size=25, max_size=41))
    rates = [level * f for f in factors]
    if whole:
        return measured(rates)
    kept = draw(st.lists(st.sampled_from([True, True, True, True, False]), min_size=len(rates), max_size=len(rates)))
    found = measured([rate if keep else None for rate, keep in zip(rates, kept, strict=True)])
    freshness = draw(st.sampled_from([Freshness.FRESH, Freshness.FRESH, Freshness.FRESH, *Freshness]))
    return replace(found, freshness=freshness, lower_bound=draw(st.booleans()))


@st.composite
def changes(draw: st.DrawFn, names: tuple[str, ...]) -> Change:
    """A change of the last ten minutes."""
    before, after = (tuple((name, draw(st.integers(0, 5))) for name in names) for _ in range(2))
    return Change(
        NOW - draw(st.sampled_from([1.0, 59.0, 100.0, 400.0])),
        Action.SCALE_UP,
        draw(st.sampled_from([ScalingReason.LOAD_ABOVE_CAPACITY, ScalingReason.SLO_MISSED])),
        before,
        after,
        QPS(draw(st.sampled_from([10.0, 100.0]))),
        draw(st.sampled_from([None, None, None, *names])),
    )


@st.composite
def situations(draw: st.DrawFn) -> Facts:
    """Any facts of a service with a plan in force that keeps its limits, or not."""
    types = draw(service_types())
    names = tuple(o.name for o in types)
    budget = draw(st.none() | st.integers(2, 60).map(lambda tenths: MicroDollarsPerHour(tenths * 100_000)))
    held = {name: draw(st.integers(0, 5)) for name in names}
    return facts(
        draw(demands()),
        held,
        draw(st.sampled_from([None, 10.0, 60.0])),
        problem=scaled_problem(types, budget=budget, launch_weight=draw(st.sampled_from([0.0, 1 / 3600]))),
        rules=draw(scaling_rules()),
        pause=draw(st.sampled_from([Pause.NONE, Pause.NONE, *Pause])),
        changes=tuple(draw(st.lists(changes(names), max_size=3))),
        waiting={name: Seconds(draw(st.sampled_from([1.0, 400.0]))) for name in names if draw(st.integers(0, 3)) == 0},
        bound={name: draw(st.integers(0, n)) for name, n in held.items()},
    )


@st.composite
def following(draw: st.DrawFn) -> Facts:
    """Facts in which the load alone decides: limits are kept, samples are whole, all that is in force serves."""
    types = draw(service_types())
    held = {o.name: draw(st.integers(0, 5)) for o in types}
    held[types[0].name] = max(held[types[0].name], 3)
    rules = draw(scaling_rules())
    most = None if rules.most is None else max(rules.most, sum(held.values()))
    budget = draw(st.none() | st.integers(140, 400).map(lambda tenths: MicroDollarsPerHour(tenths * 100_000)))
    return facts(
        draw(demands(whole=True)),
        held,
        draw(st.sampled_from([None, 10.0, 60.0])),
        problem=scaled_problem(types, budget=budget, launch_weight=draw(st.sampled_from([0.0, 1 / 3600]))),
        rules=replace(rules, most=most),
    )
