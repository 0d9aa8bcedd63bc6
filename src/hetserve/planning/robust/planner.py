"""Robust: the leading bounds and every type alone, evaluated with the noise of the profiles; the best is taken.

Kairos's bound knows mean latencies only, and its similarity rule can leave the best bound for one that holds 10 %
less, or less than the best single type. The work is bounded by a number of instances to evaluate, so that the plan
depends on the problem alone; a clock, where one is given, is only a safety net, and the plan says when it was hit.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Final

from hetserve.planning.evaluator import Evaluator
from hetserve.planning.formatting import latency_text
from hetserve.planning.kairos.planner import plan_kairos
from hetserve.planning.order import by_name, in_order_of
from hetserve.planning.plan import Candidate, Counts, Evaluated, Plan
from hetserve.planning.problem import Problem
from hetserve.planning.quick_simulation import SEED, STEP, quick_queries, quick_throughputs
from hetserve.planning.robust.candidates import candidates, is_homogeneous
from hetserve.planning.robust.explain import NAME, Evaluation, Outcome, best_alone, explain_robust, not_evaluated
from hetserve.simulation.length import SLOS
from hetserve.units import QPS, Seconds

TIME_LIMIT: Final = 2.0
INSTANCES: Final = 600
"""Most instances to evaluate, over all candidates: 40 candidates of 15 instances take 0.4 s (decision 0022)."""

WORK: Final = 30_000_000
"""Most queries x (instances + those that a step costs anyway) of the quick simulation: 1 to 2 s (decision 0022)."""

_ROOM: Final = 2.0
"""Shortest SLO that may stand for a longer one, in the longest service times."""

_FEWEST: Final = 3

Clock = Callable[[], float]


class OutOfTimeError(Exception):
    """The safety net: the clock passed the limit before the evaluation was done."""


class TooMuchWorkError(Exception):
    """The evaluation would take longer than its time; known beforehand, from the problem alone."""


BatchEvaluator = Callable[[Problem, Sequence[Candidate], Callable[[], None]], Evaluation]
"""Evaluates candidates together; calls its last argument between pieces of work and lets it raise."""

QUICK_ERROR: Final = 0.2
"""Found against the compiled simulation under the policy that serves: decision 0022."""
SIMULATION_ERROR: Final = 0.01
"""Two steps of the grid that allowable rates are searched on."""


def quick(
    problem: Problem, entries: Sequence[Candidate], checkpoint: Callable[[], None], seed: int = SEED
) -> Evaluation:
    """The default evaluator: many lanes in numpy, nothing to compile.

    Where overload takes longer to show within the SLO than there is time for, a shorter one is kept instead: what
    holds within less holds within the SLO. Raises TooMuchWorkError where even that leaves no room to wait in.
    """
    queries, how = quick_queries(entries, problem.slo.latency), ""
    instances = sum(count for entry in entries for _, count in entry.counts)
    if queries * (instances + STEP) > WORK:
        # Half of the work: what is shortened runs through all passes.
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
    return Evaluation(held, f"{queries} queries, each bound to an instance on arrival{how}", QUICK_ERROR)


def _longest(problem: Problem, entries: Sequence[Candidate]) -> float:
    """Longest mean service time [s] within the SLO on any type of the candidates: what serves it must go on to."""
    used = {name for entry in entries for name, count in entry.counts if count}
    means = (o.profile.mean(batch) for o in problem.types if o.name in used for batch in problem.mix.batches)
    return max((mean for mean in means if mean is not None and mean <= problem.slo.latency), default=0.0)


def each(evaluate: Callable[[Counts], float], method: str, error: float = SIMULATION_ERROR) -> BatchEvaluator:
    """Evaluator of candidates one by one, each from its counts, as the planners that try configurations have it."""

    def run(_: Problem, entries: Sequence[Candidate], checkpoint: Callable[[], None]) -> Evaluation:
        held: list[float] = []
        for entry in entries:
            checkpoint()
            held.append(float(evaluate(entry.counts)))
        checkpoint()
        return Evaluation(tuple(held), method, error)

    return run


def plan_robust(problem: Problem, evaluate: Evaluator | None = None, seed: int | None = None) -> Plan:
    """The best of Kairos's leading bounds and of every type alone, by evaluation with the noise of the profiles.

    evaluate: queries/s that counts hold, under the policy that will serve; None: the quick simulation.
    seed: of the quick simulation, None: the one that never changes. Infeasible exactly where `plan_kairos` is.
    """
    quickly = functools.partial(quick, seed=SEED if seed is None else seed)
    return plan_by(problem, quickly if evaluate is None else each(evaluate, "under the policy that serves"))


def plan_by(
    problem: Problem, evaluate: BatchEvaluator, clock: Clock | None = None, time_limit: float = TIME_LIMIT
) -> Plan:
    """As `plan_robust`, by any evaluator.

    The paper's pick stands unless another holds more and has the higher bound, or holds more beyond the evaluator's
    own error, or is a single type that holds more. Not evaluated, it stands unless a single type serves more than its
    bound. clock: seconds, None: no safety net. time_limit: seconds after
    which the evaluation ends at its next checkpoint and the paper's pick stands. Decided with the types by name, so
    that the choice among equals does not depend on their order.
    """
    return in_order_of(problem, _decide(by_name(problem), evaluate, _checkpoint(clock, time_limit), time_limit))


def _decide(problem: Problem, evaluate: BatchEvaluator, checkpoint: Callable[[], None], time_limit: float) -> Plan:
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
    found = [Evaluated(entry, QPS(rate)) for entry, rate in zip(entries, evaluation.held, strict=True)]
    ranked = sorted(found, key=lambda e: (-e.held, e.candidate.cost, -e.candidate.qps, e.candidate.counts))
    if ranked[0].held <= 0:
        why = "no candidate kept the SLO at any rate in simulation: the latencies vary too much"
        return not_evaluated(problem, paper, (), why)
    outcome = Outcome(problem, paper, found[0], _choose(ranked, found[0], evaluation.error), tuple(ranked), evaluation)
    return explain_robust(outcome)


def _evaluated(
    problem: Problem, entries: tuple[Candidate, ...], evaluate: BatchEvaluator, checkpoint: Callable[[], None]
) -> tuple[tuple[Candidate, ...], Evaluation]:
    """All of them or, where they are too many, the paper's pick and the best single type alone."""
    try:
        return entries, evaluate(problem, entries, checkpoint)
    except TooMuchWorkError:
        fewer = within_work(entries, instances=0, fewest=1)
        return fewer, evaluate(problem, fewer, checkpoint)


def _choose(ranked: Sequence[Evaluated], pick: Evaluated, error: float) -> Evaluated:
    """Where bound and evaluation agree that another is better than the paper's pick, that one; where they do not,
    only what is better beyond the error. Never less than the best single type.
    """
    agreed = next(entry for entry in ranked if entry.candidate.qps >= pick.candidate.qps)
    chosen = ranked[0] if ranked[0].held > agreed.held * (1 + error) else agreed
    alone = best_alone(ranked)
    return ranked[0] if alone is not None and alone.held > chosen.held else chosen


def within_work(
    entries: tuple[Candidate, ...], instances: int = INSTANCES, fewest: int = _FEWEST
) -> tuple[Candidate, ...]:
    """Candidates in their order while their instances fit, at least `fewest`; the best single type is always kept."""
    alone = max((e for e in entries if is_homogeneous(e.counts)), key=lambda e: (e.qps, -e.cost), default=None)
    kept: list[Candidate] = []
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
