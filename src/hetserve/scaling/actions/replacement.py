"""Swaps of what runs for a cheaper mix, where the saving pays for launching and for running both meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning.formatting import money_text, qps_text
from hetserve.planning.plan import Counts, Plan, summary
from hetserve.planning.problem import Problem
from hetserve.planning.reach import PlannerJob
from hetserve.scaling.actions.shrinking import is_doubtful, shrinking_load, was_missed
from hetserve.scaling.context import ScalingContext
from hetserve.scaling.decision import Action, Decision, Limit, ScalingReason
from hetserve.scaling.plans.answers import Ask, Pending
from hetserve.scaling.plans.counts import cost_of
from hetserve.scaling.plans.found import plan_words
from hetserve.scaling.plans.problems import COARSE, free_problem, up_to_grid

_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Swap:
    """What a swap costs and saves. launch: of new instances until they serve, overlap: of the old ones until then
    [micro-dollars]; saving: micro-dollars/h from then on.
    """

    launch: int
    overlap: int
    saving: MicroDollarsPerHour

    def pays(self, horizon: float) -> bool:
        """Whether it saves more than it costs within `horizon` seconds."""
        return self.saving * horizon / _HOUR > self.launch + self.overlap


def swap(before: Counts, after: Counts, problem: Problem) -> Swap:
    """Costs of going from one to the other, old instances leaving when the slowest of the new ones serves."""
    held, wanted = dict(before), dict(after)
    launch = overlap = 0.0
    new = {o.name: max(wanted.get(o.name, 0) - held.get(o.name, 0), 0) for o in problem.types}
    last = max((o.launch_time for o in problem.types if new[o.name]), default=0.0)
    for option in problem.types:
        launch += new[option.name] * option.price * option.launch_time / _HOUR
        leaving = max(held.get(option.name, 0) - wanted.get(option.name, 0), 0)
        overlap += leaving * option.price * last / _HOUR
    saving = cost_of(before, problem) - cost_of(after, problem)
    return Swap(round(launch), round(overlap), MicroDollarsPerHour(saving))


def replace_where_it_pays(context: ScalingContext, ask: Ask) -> Decision | None:
    """The decision to swap for a cheaper mix, or why not; None: no swap is due.

    The load is rounded up by more than elsewhere: a swap is not worth a question for each step of a day.
    """
    facts, rules = context.facts, context.facts.rules
    load = shrinking_load(context)
    if not rules.replaces or load is None or load <= 0 or not context.is_settled or is_doubtful(context):
        return None
    answer = _cheaper(context, load, ask)
    if isinstance(answer, Pending):
        return context.waits(f"whether another mix is cheaper at {qps_text(load)}")
    if answer is None:
        return None
    made = swap(context.counts, answer.counts, facts.problem)
    if not made.pays(rules.payback):
        return None
    words = (
        f"{summary(answer.counts)} carry {qps_text(load)} for {money_text(made.saving)} less than "
        f"{summary(context.counts)}, more within {rules.payback:g} s than the "
        f"${(made.launch + made.overlap) / 1e6:.4g} that launching and running both costs"
    )
    if not (facts.pause.adds and facts.pause.removes):
        limit = Limit(ScalingReason.PAUSED, f"spec.pause is {facts.pause}: another mix of types would be cheaper")
        return context.hold(ScalingReason.CHEAPER_MIX, f"{words}; {limit.words}", limit)
    words = f"{words}; {plan_words(answer)}"
    return context.change(Action.REPLACE, ScalingReason.CHEAPER_MIX, words, answer.counts, load=load, plan=answer)


def _cheaper(context: ScalingContext, load: QPS, ask: Ask) -> Plan | Pending | None:
    """The cheapest plan for a load, whatever runs; None: there is none, or its like was seen to break the SLO."""
    facts, rules = context.facts, context.facts.rules
    needed = up_to_grid(load / rules.saturation, COARSE)
    answer = ask(PlannerJob(free_problem(facts.problem, rules, context.counts, needed, context.caps)))
    if isinstance(answer, Pending):
        return answer
    if not isinstance(answer, Plan) or not answer.feasible:
        return None
    missed = was_missed(context, answer.counts, load, ask)
    if isinstance(missed, Pending):
        return missed
    return None if missed else answer
