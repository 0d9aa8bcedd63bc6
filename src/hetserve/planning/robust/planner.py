"""Robust: evaluates the leading bounds and every type alone with the noise of the profiles, and takes the best.

The work is limited by instances, so the plan depends on the problem alone (decision 0022).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Final

from hetserve.base.units import QPS, Seconds
from hetserve.planning.formatting import latency_text
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.planning.plan import Counts, EvaluatedConfiguration, Evaluator, Plan, RankedConfiguration
from hetserve.planning.problem import Problem
from hetserve.planning.quick_simulation import SEED, STEP, quick_queries, quick_throughputs
from hetserve.planning.robust.candidates import candidates, is_homogeneous
from hetserve.planning.robust.explain import (
    NAME,
    CandidateEvaluation,
    RobustChoice,
    best_alone,
    explain_robust,
    not_evaluated,
)
from hetserve.simulation.stability import SLOS

TIME_LIMIT: Final = 2.0
INSTANCES: Final = 600
"""Most instances over all candidates (decision 0022)."""

WORK: Final = 30_000_000
"""Limit on queries x (instances + STEP) of the quick simulation: 1 to 2 s (decision 0022)."""

_ROOM: Final = 2.0

_FEWEST: Final = 3

Clock = Callable[[], float]


class OutOfTimeError(Exception):
    """The time limit passed during the evaluation."""


class TooMuchWorkError(Exception):
    """The evaluation would exceed its work limit."""


CandidateEvaluator = Callable[[Problem, Sequence[RankedConfiguration], Callable[[], None]], CandidateEvaluation]
"""Evaluates candidates together; calls its last argument, which may raise, between pieces of work."""

QUICK_ERROR: Final = 0.2
"""Measured against the compiled simulation (decision 0022)."""
SIMULATION_ERROR: Final = 0.01


def quick(
    problem: Problem, entries: Sequence[RankedConfiguration], checkpoint: Callable[[], None], seed: int = SEED
) -> CandidateEvaluation:
    """The default evaluator: the quick simulation.

    If overload shows too late at the SLO, a shorter SLO replaces it: a rate that holds there holds at the SLO. Raises
    TooMuchWorkError if that leaves no time to wait in.
    """
    queries, how = quick_queries(entries, problem.slo.latency), ""
    instances = sum(count for entry in entries for _, count in entry.counts)
    if queries * (instances + STEP) > WORK:
        # A shortened simulation runs all passes.
        most = WORK // 2 // (instances + STEP)
        slo = Seconds(most / (SLOS * max(entry.qps for entry in entries)))
        if slo < _ROOM * _longest(problem, entries) or quick_queries(entries, slo) > most + 1:
            raise TooMuchWorkError(
                f"overload would show after {queries} queries only, too many for {len(entries)} configurations of "
                f"{instances} instances in all"
            )
        queries = quick_queries(entries, slo)
        how = f", within {latency_text(slo)} already, since overload takes long to show at this SLO"
        problem = dataclasses.replace(problem, slo=dataclasses.replace(problem.slo, latency=slo))
    held = quick_throughputs(problem, entries, queries, checkpoint, seed)
    return CandidateEvaluation(held, f"{queries} queries, each bound to an instance on arrival{how}", QUICK_ERROR)


def _longest(problem: Problem, entries: Sequence[RankedConfiguration]) -> float:
    used = {name for entry in entries for name, count in entry.counts if count}
    means = (o.profile.mean(batch) for o in problem.types if o.name in used for batch in problem.mix.batches)
    return max((mean for mean in means if mean is not None and mean <= problem.slo.latency), default=0.0)


def one_by_one(evaluate: Callable[[Counts], float], method: str, error: float = SIMULATION_ERROR) -> CandidateEvaluator:
    def run(_: Problem, entries: Sequence[RankedConfiguration], checkpoint: Callable[[], None]) -> CandidateEvaluation:
        held: list[float] = []
        for entry in entries:
            checkpoint()
            held.append(float(evaluate(entry.counts)))
        checkpoint()
        return CandidateEvaluation(tuple(held), method, error)

    return run


def plan_robust(problem: Problem, evaluate: Evaluator | None = None, seed: int | None = None) -> Plan:
    """The best of Kairos's leading bounds and of every type alone, by evaluation with the noise of the profiles.

    evaluate: queries/s that counts hold; None: the quick simulation. seed: of it. Infeasible exactly if `plan_kairos`
    is.
    """
    quickly = functools.partial(quick, seed=SEED if seed is None else seed)
    return plan_by(problem, quickly if evaluate is None else one_by_one(evaluate, "under the policy that serves"))


def plan_by(
    problem: Problem, evaluate: CandidateEvaluator, clock: Clock | None = None, time_limit: float = TIME_LIMIT
) -> Plan:
    """As `plan_robust`, by any evaluator.

    Another configuration replaces the paper's pick if it holds more and has the higher bound, holds more beyond the
    evaluator's error, or is a single type that holds more. Without an evaluation only a single type that serves more
    than the pick's bound does. clock: seconds; None: no safety net. time_limit: seconds.
    """
    decided = _decide(problem.by_name(), evaluate, _checkpoint(clock, time_limit), time_limit)
    return decided.in_order_of(problem)


def _decide(problem: Problem, evaluate: CandidateEvaluator, checkpoint: Callable[[], None], time_limit: float) -> Plan:
    paper = plan_kairos(problem)
    if not paper.feasible:
        return dataclasses.replace(paper, planner=NAME)
    entries = within_work(candidates(problem, paper))
    try:
        entries, evaluation = _evaluated(problem, entries, evaluate, checkpoint)
    except OutOfTimeError:
        return not_evaluated(problem, paper, entries, f"evaluation ended at its time limit of {time_limit:g} s")
    except TooMuchWorkError as error:
        return not_evaluated(problem, paper, entries, str(error))
    found = [EvaluatedConfiguration(entry, QPS(rate)) for entry, rate in zip(entries, evaluation.held, strict=True)]
    ranked = sorted(found, key=lambda e: (-e.held, e.candidate.cost, -e.candidate.qps, e.candidate.counts))
    if ranked[0].held <= 0:
        why = "no candidate kept the SLO at any rate in simulation: the latencies vary too much"
        return not_evaluated(problem, paper, (), why)
    chosen = _choose(ranked, found[0], evaluation.error)
    return explain_robust(RobustChoice(problem, paper, found[0], chosen, tuple(ranked), evaluation))


def _evaluated(
    problem: Problem,
    entries: tuple[RankedConfiguration, ...],
    evaluate: CandidateEvaluator,
    checkpoint: Callable[[], None],
) -> tuple[tuple[RankedConfiguration, ...], CandidateEvaluation]:
    try:
        return entries, evaluate(problem, entries, checkpoint)
    except TooMuchWorkError:
        fewer = within_work(entries, instances=0, fewest=1)
        return fewer, evaluate(problem, fewer, checkpoint)


def _choose(
    ranked: Sequence[EvaluatedConfiguration], pick: EvaluatedConfiguration, error: float
) -> EvaluatedConfiguration:
    """The best that bound and evaluation agree on, else what is better beyond the error; at least the best
    single type.
    """
    agreed = next(entry for entry in ranked if entry.candidate.qps >= pick.candidate.qps)
    chosen = ranked[0] if ranked[0].held > agreed.held * (1 + error) else agreed
    alone = best_alone(ranked)
    return ranked[0] if alone is not None and alone.held > chosen.held else chosen


def within_work(
    entries: tuple[RankedConfiguration, ...], instances: int = INSTANCES, fewest: int = _FEWEST
) -> tuple[RankedConfiguration, ...]:
    """Candidates in their order while their instances fit, at least `fewest`, and the best single type."""
    alone = max((e for e in entries if is_homogeneous(e.counts)), key=lambda e: (e.qps, -e.cost), default=None)
    kept: list[RankedConfiguration] = []
    spent = 0
    for entry in entries:
        size = sum(count for _, count in entry.counts)
        if entry is alone or len(kept) < fewest or spent + size <= instances:
            kept.append(entry)
            spent += size
    return tuple(kept)


def _checkpoint(clock: Clock | None, time_limit: float) -> Callable[[], None]:
    if clock is None:
        return lambda: None
    end = clock() + time_limit

    def check() -> None:
        if clock() > end:
            raise OutOfTimeError

    return check
