"""One pool measured: plans for most throughput and least cost, what each holds, and the best that can be found."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from benchmarks.flow import store
from benchmarks.flow.judge import LONG, PROOF, RIVALS, Judge, Numbers
from benchmarks.flow.pools import carrying, configurations
from benchmarks.flow.program import ceiling
from benchmarks.flow.search import BETTER, LeastSearch, MostSearch, cost, maximal, program_candidates
from benchmarks.reporting import Json

from hetserve.planning import Plan, Problem, plan
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.registry.planners import PLANNERS

MOST_PLANNERS: Final = ("flow", "kairos", "homogeneous", "ilp")
"""`ilp` has no load to carry then: the most capacity that the budget buys."""
LEAST_PLANNERS: Final = ("flow", "ilp", "greedy")
POLICIES: Final = DISPATCH_POLICIES.names_of(lambda member: member.climbs is None)
"""Those that need no threshold found first."""
SHARES: Final = (0.3, 0.6)
"""Loads of least cost, of what the best known configuration holds."""
SEARCHED: Final = 400
"""Pools of at most so many configurations are searched exhaustively."""
_PROVEN: Final = 8
_EVALUATED: Final = 12


def measured(given: Problem) -> Json:
    """The record of a pool; kept, with every trial made on the way."""
    kept = store.opened(given)
    judge = Judge(given, kept.memo)
    started = time.process_time()
    most, search = most_throughput(judge)
    kept.save()
    held = most["best"]["qps"]
    least = [least_cost(judge, search, share, held) for share in SHARES] if held else []
    kept.save()
    kept.record = {
        "types": len(given.types),
        "batches": len(given.mix.batches),
        "largest": given.mix.largest,
        "percentile": given.slo.percentile,
        "most": most,
        "least": least,
        "policies": policies(judge, most) if held else {},
        "seconds": time.process_time() - started,
        "trials": judge.made,
    }
    kept.code = store.code_version()
    kept.save()
    return kept.record


def most_throughput(judge: Judge) -> tuple[Json, MostSearch]:
    """Plans of all planners, the best found from them, and each proven by other seeds."""
    given, search = judge.given, MostSearch.of(judge)
    made = plans_of(given, MOST_PLANNERS)
    picks = {name: numbers_of(given, one) for name, (one, _) in made.items() if one.feasible}
    for numbers in picks.values():
        search.add(numbers)
    evaluated = (dict(e.candidate.counts) for one, _ in made.values() for e in one.evaluated[:_EVALUATED])
    exhaustive = configurations(given) <= SEARCHED
    search.try_all(_in_order(given, evaluated))
    search.try_all(maximal(given) if exhaustive else program_candidates(given))
    search.climb()
    best, rate = search.best
    proof = {one: judge.rate(one, PROOF, search.rates[one] or None) for one in {best, *picks.values()}}
    top = max(proof, key=lambda one: (proof[one], -cost(given, one), one))
    found: Json = {
        "plans": {name: _plan_row(given, one, seconds) for name, (one, seconds) in made.items()},
        "held": {name: proof[numbers] for name, numbers in picks.items()},
        "best": {
            "counts": list(top),
            "qps": proof[top],
            "found": rate,
            "planners": [n for n in picks if picks[n] == top],
        },
        "exhaustive": exhaustive,
        "ceiling": ceiling(given, search.exact),
        "simulated": len(search.rates),
        "screened": search.screened,
        "pruned": search.pruned,
    }
    return found, search


def least_cost(judge: Judge, most: MostSearch, share: float, held: float) -> Json:
    """Plans for a share of what the best configuration holds, each tried on long runs, and the least cost found."""
    asked = carrying(judge.given, float(f"{share * held:.3g}"))
    search = LeastSearch(judge, asked, most.exact)
    made = plans_of(asked, LEAST_PLANNERS)
    picks = {name: numbers_of(asked, one) for name, (one, _) in made.items() if one.feasible}
    for name, numbers in picks.items():
        search.try_one(numbers, name)
    search.try_one(most.best[0], "most")
    search.bisect_margins()
    search.trim()
    return {
        "share": share,
        "load": search.load,
        "plans": {name: _plan_row(asked, one, seconds) for name, (one, seconds) in made.items()},
        "tried": {name: long_trial(judge, numbers, search.load) for name, numbers in picks.items()},
        "best": _cheapest_proven(judge, search),
    }


def policies(judge: Judge, most: Json) -> Json:
    """What `hetserve` holds at the best configuration, and every other policy that holds more [queries/s].

    own: the same for `kairos` at its own pick, against `hetserve` at ours.
    """
    best, near = tuple(most["best"]["counts"]), most["best"]["qps"]
    ours = judge.rate(best, RIVALS, near)
    above = {name: _above(judge, name, best, ours) for name in POLICIES if name != judge.policy}
    plans, own = most["plans"], {"hetserve": 0.0, "kairos": None}
    if "flow" in most["held"] and plans["kairos"]["feasible"]:
        held = judge.rate(tuple(plans["flow"]["counts"]), RIVALS, most["held"]["flow"] or None)
        own = {"hetserve": held, "kairos": _above(judge, "kairos", tuple(plans["kairos"]["counts"]), held)}
    return {"hetserve": ours, "above": above, "own": own}


def _above(judge: Judge, policy: str, numbers: Numbers, ours: float) -> float | None:
    """The rate under another policy if it is more, else None."""
    other, wanted = Judge(judge.given, judge.memo, policy), ours * BETTER
    if wanted and not other.passes(numbers, wanted, RIVALS):
        return None
    return other.rate(numbers, RIVALS, wanted or None)


def plans_of(given: Problem, planners: Iterable[str]) -> dict[str, tuple[Plan, float]]:
    """Plan and processor seconds by planner, without those that the registry lacks."""
    return {name: _timed(given, name) for name in planners if name in PLANNERS}


def _timed(given: Problem, planner: str) -> tuple[Plan, float]:
    asked = replace(given, objective="MinCost") if planner == "ilp" else given
    started = time.process_time()
    made = plan(asked, planner)
    return made, time.process_time() - started


def numbers_of(given: Problem, made: Plan) -> Numbers:
    """Counts in the order of the problem's types."""
    held = dict(made.counts)
    return tuple(held[option.name] for option in given.types)


def _in_order(given: Problem, evaluated: Iterable[dict[str, int]]) -> tuple[Numbers, ...]:
    return tuple(dict.fromkeys(tuple(held[option.name] for option in given.types) for held in evaluated))


def _plan_row(given: Problem, made: Plan, seconds: float) -> Json:
    """says: what the plan claims to hold or carry, ceiling: what it says no mix exceeds [queries/s]."""
    return {
        "feasible": made.feasible,
        "reason": made.reason,
        "counts": list(numbers_of(given, made)),
        "cost": made.cost,
        "says": made.qps if made.held_qps is None else made.held_qps,
        "ceiling": made.ceiling_qps,
        "tried": made.tried,
        "seconds": seconds,
    }


def long_trial(judge: Judge, numbers: Numbers, load: float) -> Json:
    """Whether counts carry a load [queries/s] on long runs, to the end."""
    found = judge.trial(numbers, load, LONG, whole=True)
    return {"late": found.late, "steady": found.steady, "holds": found.passed}


def _cheapest_proven(judge: Judge, search: LeastSearch) -> Json | None:
    """The cheapest found that holds on long runs too; None: none of the first few."""
    for numbers in search.by_cost()[:_PROVEN]:
        if judge.passes(numbers, search.load, LONG):
            return {"counts": list(numbers), "cost": cost(search.given, numbers), "method": search.held[numbers]}
    return None
