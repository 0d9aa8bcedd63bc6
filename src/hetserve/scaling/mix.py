"""The mix of batch sizes as measured: which counts, and when it moves instances of a service that follows no load."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from hetserve.demand.measured_mix import distance, least_move, moved_by, moved_mix
from hetserve.demand.mix import BatchMix
from hetserve.demand.observed import Demand, Freshness
from hetserve.planning.formatting import qps_text, share_text
from hetserve.planning.plan import Plan, summary
from hetserve.planning.problem import Problem
from hetserve.planning.reach import PlannerJob
from hetserve.scaling.decision import Action, Decision, ScalingReason
from hetserve.scaling.facts import Facts
from hetserve.scaling.plans.answers import Ask, Pending, Unanswered
from hetserve.scaling.plans.capacity import capacity, is_servable
from hetserve.scaling.plans.counts import in_order, is_same
from hetserve.scaling.plans.found import plan_words

BETTER: Final = 0.05
"""Relative gain for which instances are moved."""
_RATIO: Final = 1.25


def coarse(mix: BatchMix) -> BatchMix:
    """The mix with shares on a geometric grid, so that digits do not make new questions; rare sizes stay."""
    steps = ((b, round(math.log(share) / math.log(_RATIO))) for b, share in zip(mix.batches, mix.shares, strict=True))
    return BatchMix.of((batch, _RATIO**step) for batch, step in steps).rounded


def has_moved(problem: Problem, demand: Demand) -> bool:
    """Whether the measured mix is another than the problem's, as far as it is known: it is not unless it is Fresh."""
    unknown = demand.freshness is not Freshness.FRESH or demand.mix is None
    return unknown or moved_mix(problem.mix, demand) is not None


def mix_to_follow(problem: Problem, demand: Demand) -> BatchMix | None:
    """The measured mix from which on a service that follows its load is planned; None: that of the problem stays.

    One that the types cannot serve within the SLO is no plan's: instances follow the load by the mix of before.
    """
    found = moved_mix(problem.mix, demand)
    return found.rounded if found is not None and is_servable(problem, found) else None


def follow_mix(facts: Facts, ask: Ask) -> Decision:
    """The decision for a MaxThroughput service. facts: the problem has the mix that the plan in force is for.

    Its plans depend on the mix and not on the load: instances move only if another plan holds more by `BETTER` under
    the mix as measured.
    """
    assert facts.in_force is not None  # noqa: S101  the caller has checked
    problem, demand = facts.problem, facts.demand
    held = in_order(facts.in_force.counts, problem)

    def hold(reason: ScalingReason, words: str, *, pending: bool = False) -> Decision:
        return Decision(Action.HOLD, reason, words, held, pending=pending)

    if demand.freshness is not Freshness.FRESH or demand.mix is None:
        return hold(ScalingReason.METRICS_NOT_FRESH, demand.why or "the mix of batch sizes is not measured")
    found = moved_mix(problem.mix, demand)
    if found is None:
        moved, least = share_text(moved_by(problem.mix, demand)), share_text(least_move(demand))
        return hold(ScalingReason.LOAD_CARRIED, f"the mix has moved by {moved}, less than {least}")
    asked = replace(problem, mix=coarse(found))
    answer = ask(PlannerJob(asked))
    holds = answer if isinstance(answer, Pending) else capacity(asked, held, ask)
    if isinstance(answer, Pending) or isinstance(holds, Pending):
        return hold(ScalingReason.PLANNING, "a plan for the mix as measured is being worked out", pending=True)
    if isinstance(holds, Unanswered) or not isinstance(answer, Plan) or not answer.feasible:
        return hold(ScalingReason.PLANNER_FAILED, f"no plan for the mix as measured: {_why(answer, holds)}")
    more = (answer.held_qps or answer.qps or 0.0) / max(holds.qps, 1e-9) - 1
    words = (
        f"the mix has moved by {share_text(distance(problem.mix, asked.mix))}; "
        f"under it {summary(held)} hold {qps_text(holds.qps)}, "
        f"{plan_words(answer)} hold {qps_text(answer.held_qps or answer.qps or 0.0)}"
    )
    if more < BETTER or is_same(answer.counts, held):
        return hold(ScalingReason.LOAD_CARRIED, f"{words}: not {share_text(BETTER)} more")
    return Decision(Action.REPLACE, ScalingReason.BETTER_MIX, words, answer.counts, plan=answer)


def _why(*answers: object) -> str:
    texts = [getattr(one, "why", None) or getattr(one, "message", None) for one in answers]
    return next((text for text in texts if text), "the planner gave no plan")
