"""What a flow plan says of itself."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from hetserve.planning.flow.explanation.choice import ChosenMix, Tried
from hetserve.planning.formatting import latency_text, money_text, qps_text, share_text
from hetserve.planning.plan import RankedConfiguration, summary

_MUCH: Final = 10
"""Times the load: above, the rate alone says more than a share."""


def message(choice: ChosenMix, entry: RankedConfiguration) -> str:
    how = "not tried" if choice.untried else "in simulation"
    return f"{summary(entry.counts)} for {money_text(entry.cost)}, {qps_text(choice.held)} {how}"


def verdict(choice: ChosenMix) -> str:
    return "; ".join((_held(choice), *_margin(choice), *_left(choice)))


def _held(choice: ChosenMix) -> str:
    slo = choice.table.problem.slo
    within = f"{qps_text(choice.held)} within {latency_text(slo.latency)} (p{slo.percentile:.10g})"
    idle = "for no load: " if choice.is_idle else ""
    verb = "carries" if choice.is_cost and not choice.is_idle else "holds"
    if choice.untried:
        return f"{idle}not tried, as {choice.untried}: by the program and queueing theory it {verb} {within}"
    return f"{idle}{verb} {within} in simulation under policy {choice.table.problem.policy} ({choice.trials} trials)"


def _margin(choice: ChosenMix) -> Iterator[str]:
    """What is in hand, and the program's proof over all mixes, rounded to its safe side."""
    problem, limit = choice.table.problem, choice.ceiling
    if not choice.is_cost:
        share = share_text(min(choice.held / limit, 1.0))
        within = "the limits" if problem.budget is None else money_text(problem.budget)
        most = f"no mix within {within} can hold more than {ceiling_text(limit)}"
        yield f"{share} of the ceiling: {most}"
        return
    if choice.is_idle:
        yield f"no mix that serves every batch costs less than {floor_text(limit)}"
        return
    if choice.seen > choice.held:
        more = choice.seen / choice.held - 1
        yield f"held up to {qps_text(choice.seen)}" + (f", {share_text(more)} more" if more < _MUCH else "")
    else:
        yield f"the load takes {share_text(choice.held / choice.fluid(choice.values))} of the instances' time"
    yield f"no mix that carries {qps_text(choice.held)} costs less than {floor_text(limit)}"


def ceiling_text(qps: float) -> str:
    """Rounded up, as `qps_text`."""
    digits = 1 if qps >= 10 else 2 - math.floor(math.log10(max(qps, 1e-9)))
    return qps_text(math.ceil(qps * 10**digits - 1e-6) / 10**digits)


def floor_text(cost: float) -> str:
    """Rounded down to a thousandth of a dollar if that leaves something."""
    return money_text(math.floor(cost / 1000) * 1000 if cost >= 10_000 else math.floor(cost))


def _left(choice: ChosenMix) -> Iterator[str]:
    budget = choice.table.problem.budget
    if budget is not None and budget > choice.cost:
        yield f"{money_text(budget - choice.cost)} of {money_text(budget)} left"


def why_not(choice: ChosenMix, other: Tried | None, entry: RankedConfiguration) -> str:
    """Why the runner-up is not the plan; other: None if it did not run."""
    extra = entry.cost - choice.cost
    money = "at the same cost" if not extra else f"for {money_text(abs(extra))} {'more' if extra > 0 else 'less'}"
    seen = max(choice.seen, choice.held)
    if other is None:
        bound = f"its fluid bound of {qps_text(entry.qps)}"
        return f"{bound} is below the {qps_text(seen)} that the plan held in its trials, {money}"
    if not other.held:
        return f"breaks the SLO at {qps_text(other.below or choice.held)} in simulation, {money}"
    if choice.is_cost:
        return f"{'serves every batch' if choice.is_idle else 'carries the load'} too, {money}"
    less = seen - other.held
    figure = f"{qps_text(less)} less than the plan" if less > 0 else "no more than the plan"
    return f"holds {figure} in the same trials, {money}"
