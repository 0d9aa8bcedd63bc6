"""Simulates a configuration under a dispatch policy, at a rate or at the highest that the SLO allows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from hetserve.api.conditions import Reason
from hetserve.cli.capacity.effort import SimulationEffort
from hetserve.cli.capacity.services import NotPlannedError
from hetserve.cli.output.progress import Steps
from hetserve.dispatch import Policy, make_policy
from hetserve.dispatch.threshold import climb
from hetserve.planning import Counts, Problem, summary
from hetserve.planning.formatting import latency_text, qps_text
from hetserve.registry.dispatch_policies import DISPATCH_POLICIES
from hetserve.serving.system import System
from hetserve.simulation.allowable import GRID, Allowable, Progress, TrialSetup, allowable_throughput
from hetserve.simulation.criteria import Confident, Criterion, steady_per_seed
from hetserve.simulation.report import RunReport
from hetserve.simulation.run import simulate
from hetserve.simulation.stability import SLOS, ceiling, fewest_queries
from hetserve.simulation.workload import draw_workload

_CLIMBING = SimulationEffort(queries=10_000, seeds=(0,), jobs=1)

MOST_AT_A_RATE = 5_000_000
MOST_TO_FIND = 1_000_000
MOST_TO_TRY_MANY = 200_000
"""Most queries per run for a long SLO; about a minute each (one rate, one scan, a dozen scans)."""


@dataclass(frozen=True, slots=True)
class Held:
    """The load that a configuration holds under a policy.

    fluid: fluid bound [queries/s]. ceiling: most queries/s, however late. reports: at the allowable rate, by seed.
    """

    allowable: Allowable
    fluid: float
    ceiling: float
    reports: tuple[RunReport, ...]


def late_share(reports: Sequence[RunReport]) -> float | None:
    """Share of late queries over all seeds; None: nothing ran."""
    queries = sum(report.queries for report in reports)
    return sum(report.violations for report in reports) / queries if queries else None


def worst_delay(reports: Sequence[RunReport]) -> float | None:
    """Seconds over all seeds; None: nothing was served."""
    return max((report.worst_delay for report in reports if math.isfinite(report.worst_delay)), default=None)


def system_of(problem: Problem) -> System:
    profiles = {option.name: option.profile for option in problem.types}
    return System.of(profiles, problem.mix.batches, problem.slo.latency, base=problem.base)


def run_at(  # noqa: PLR0917
    problem: Problem,
    counts: Mapping[str, int],
    policy: Policy,
    rate: float,
    effort: SimulationEffort,
    shown: Steps | None = None,
) -> list[RunReport]:
    """One report per seed; rate in queries/s."""
    system = system_of(problem)

    def run(seed: int) -> RunReport:
        workload = draw_workload(problem.mix, effort.queries, seed, effort.arrivals)
        report = simulate(system, counts, policy, workload, rate, warm_up=effort.warm_up)
        if shown is not None:
            shown.done(f"seed {seed}")
        return report

    with ThreadPoolExecutor(effort.jobs) as pool:
        return list(pool.map(run, effort.seeds))


def find_allowable(
    problem: Problem, counts: Mapping[str, int], policy: Policy, effort: SimulationEffort, note: Progress | None = None
) -> Held:
    """Highest rate at which the SLO holds; with fewer than three seeds each is judged alone."""
    fluid = fluid_rate(problem, counts)
    found = _allowable(problem, counts, policy, fluid, effort, note)
    reports = run_at(problem, counts, policy, found.rate, effort) if found.rate > 0 else []
    return Held(found, fluid, ceiling_rate(problem, counts), tuple(reports))


def long_enough(problem: Problem, rate: float, effort: SimulationEffort, most: int) -> SimulationEffort:
    """Raises the queries per run until overload shows at `rate` [queries/s]; keeps a recording and a ramp.

    Raises NotPlannedError beyond `most` queries.
    """
    least = fewest_queries(problem.slo.latency, rate) + effort.warm_up
    if least <= effort.queries or not effort.kind.is_steady:
        return effort
    if least > most:
        slo = latency_text(problem.slo.latency)
        raise NotPlannedError(
            str(Reason.SPEC_INVALID),
            f"at {qps_text(rate)} overload takes {SLOS} x the SLO of {slo} to show: {least} queries a run, of which "
            f"this command simulates at most {most}; give a shorter SLO, less load or a smaller budget",
        )
    return dataclasses.replace(effort, queries=least, asked=effort.queries)


def longest_rate(problem: Problem, counts: Mapping[str, int]) -> float:
    return fluid_rate(problem, counts) or _fastest(problem, counts)


def policy_for(name: str, problem: Problem, counts: Mapping[str, int]) -> Policy:
    """Policy of that name; climbs to a setting as DeepRecSys's threshold."""
    setting = DISPATCH_POLICIES[name].climbs
    if setting is None:
        return make_policy(name)
    fluid = fluid_rate(problem, counts)
    effort = long_enough(problem, longest_rate(problem, counts), _CLIMBING, MOST_TO_FIND)

    def measure(size: int) -> float:
        policy = make_policy(name, **{setting: size})
        return _allowable(problem, counts, policy, fluid, effort, step=0.02).rate

    sizes = len(problem.mix.batches)
    return make_policy(name, **{setting: climb(measure, sizes, sizes // 2)})


def most_trials(effort: SimulationEffort) -> int:
    return math.ceil(1 / GRID) * (1 if len(effort.seeds) >= Confident.fewest else len(effort.seeds))


def fluid_rate(problem: Problem, counts: Mapping[str, int]) -> float:
    """Fluid bound [queries/s]; 0 if some batch misses the SLO."""
    from hetserve.dispatch.lp import fluid_bound  # noqa: PLC0415

    model = system_of(problem).predicted
    return fluid_bound(model, [counts.get(name, 0) for name in model.types], problem.mix)


def ceiling_rate(problem: Problem, counts: Mapping[str, int]) -> float:
    return ceiling(system_of(problem), counts, problem.mix)


def _allowable(  # noqa: PLR0917
    problem: Problem,
    counts: Mapping[str, int],
    policy: Policy,
    fluid: float,
    effort: SimulationEffort,
    note: Progress | None = None,
    *,
    step: float = GRID,
) -> Allowable:
    criterion: Criterion = Confident() if len(effort.seeds) >= Confident.fewest else steady_per_seed()
    top = ceiling_rate(problem, counts)
    judged = TrialSetup(system_of(problem), counts, policy, problem.slo.percentile, criterion, effort.warm_up, top)
    works = [draw_workload(problem.mix, effort.queries, seed, effort.arrivals) for seed in effort.seeds]
    start = fluid if fluid > 0 else _fastest(problem, counts)
    return allowable_throughput(judged, works, start, step=step, threads=effort.jobs, progress=note)


def _fastest(problem: Problem, counts: Mapping[str, int]) -> float:
    """Rate [queries/s] of all instances on their fastest query: start of a scan without fluid bound."""
    fastest = {
        option.name: min(mean for b in problem.mix.batches if (mean := option.profile.mean(b)) is not None)
        for option in problem.types
    }
    return math.fsum(count / fastest[name] for name, count in counts.items())


def evaluator(problem: Problem, policy: str, effort: SimulationEffort, shown: Steps) -> Callable[[Counts], float]:
    """Allowable rate of a configuration under `policy`; simulates each once."""
    known: dict[Counts, float] = {}

    def evaluate(counts: Counts) -> float:
        if counts not in known:
            held = dict(counts)
            chosen, fluid = policy_for(policy, problem, held), fluid_rate(problem, held)
            known[counts] = _allowable(problem, held, chosen, fluid, effort, shown.tried).rate
            shown.done(f"{summary(counts)} holds {known[counts]:.4g} q/s")
        return known[counts]

    return evaluate
