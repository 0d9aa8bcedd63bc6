"""Kairos's ranking put into a Plan: chosen, runner-up, why not, what each type is good for, and what binds."""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.api.conditions import Reason
from hetserve.planning.formatting import difference_text, latency_text, money_text, qps_text, share_text
from hetserve.planning.kbest import Ranking
from hetserve.planning.plan import Candidate, Counts, Plan, Refusal, summary
from hetserve.planning.problem import Problem
from hetserve.planning.rates import Auxiliary, Rates
from hetserve.planning.step import Step, step_text
from hetserve.units import QPS, MicroDollarsPerHour


@dataclass(frozen=True, slots=True)
class Ranked:
    """A configuration (base first, then the auxiliaries of the rates), its cost and its bound."""

    counts: tuple[int, ...]
    cost: int
    bound: float


@dataclass(frozen=True, slots=True)
class Setting:
    """What a ranking is made of."""

    problem: Problem
    rates: Rates
    budget: int


def explain(
    setting: Setting,
    ranked: tuple[Ranked, ...],
    *,
    pick: int,
    rule: str,
    ranking: Ranking,
    step: Step,
) -> Plan:
    """Feasible plan of the pick; the runner-up is the best of the others in the ranking."""
    chosen = ranked[pick]
    counts = counts_of(setting, chosen.counts)
    runner_up = next((entry for i, entry in enumerate(ranked) if i != pick), None)
    why_not = "" if runner_up is None else _why_not(chosen, runner_up, rule)
    return Plan(
        feasible=True,
        reason=Reason.PLAN_FEASIBLE,
        message=f"{summary(counts)} for {money_text(chosen.cost)}, upper bound {qps_text(chosen.bound)}",
        planner="kairos",
        counts=counts,
        cost=MicroDollarsPerHour(chosen.cost),
        bound_qps=QPS(chosen.bound),
        runner_up=None if runner_up is None else _candidate(setting, runner_up),
        why_not_runner_up=why_not,
        ranking=tuple(_candidate(setting, entry) for entry in ranked),
        refusals=setting.problem.left_out + roles(setting),
        verdict=f"{_verdict(setting, chosen, rule, ranking)}; {step_text(step.step, step.known)}",
        next_step=step.step,
        tied=ranking.tied,
    )


def counts_of(setting: Setting, row: tuple[int, ...]) -> Counts:
    """Counts of every type of the problem, in its order. row: base first, then the auxiliaries of the rates."""
    rates = setting.rates
    columns = (rates.base.name, *(aux.option.name for aux in rates.auxiliaries))
    held = dict(zip(columns, row, strict=True))
    return tuple((option.name, held.get(option.name, 0)) for option in setting.problem.types)


def _candidate(setting: Setting, entry: Ranked) -> Candidate:
    return Candidate(counts_of(setting, entry.counts), MicroDollarsPerHour(entry.cost), QPS(entry.bound))


def _why_not(chosen: Ranked, other: Ranked, rule: str) -> str:
    bound, cost = other.bound - chosen.bound, other.cost - chosen.cost
    if abs(bound) < 1e-9 * chosen.bound:
        bound = 0.0
    if bound == 0.0 and cost == 0:
        return "the same bound at the same cost; the counts decided (base first, then auxiliaries by name)"
    difference = difference_text(bound, cost, "bound")
    return f"{difference}, but {rule}" if bound > 0 or (bound == 0.0 and cost < 0) else difference


def roles(setting: Setting) -> tuple[Refusal, ...]:
    """One line per type that is not the base: what it can serve within the SLO, and so what it is good for."""
    useful = {aux.option.name: aux for aux in setting.rates.auxiliaries}
    slo = latency_text(setting.problem.slo.latency)
    lines: list[Refusal] = []
    for option in sorted(setting.problem.types, key=lambda o: o.name):
        if option.name in useful:
            lines.append(Refusal(option.name, _role(useful[option.name], setting, slo)))
        elif option.name != setting.rates.base.name:
            smallest = setting.problem.mix.batches[0]
            lines.append(Refusal(option.name, f"too slow even at batch {smallest}, the smallest, for {slo}: not used"))
    return tuple(lines)


def _role(aux: Auxiliary, setting: Setting, slo: str) -> str:
    limited = "" if aux.option.max_instances is None else f", at most {aux.option.max_instances}"
    if aux.limit >= setting.problem.mix.largest:
        base = setting.rates.base.name
        return f"serves every batch within {slo}, for more $ per query than {base}: auxiliary for all queries{limited}"
    return (
        f"too slow above batch {aux.limit} for {slo}: auxiliary for {share_text(aux.f)} of queries "
        f"(f = {aux.f:.3f}){limited}"
    )


def _verdict(setting: Setting, chosen: Ranked, rule: str, ranking: Ranking) -> str:
    left = setting.budget - chosen.cost
    slo = setting.problem.slo
    return (
        f"at most {qps_text(chosen.bound)} within {latency_text(slo.latency)} (p{slo.percentile:g}), by Kairos's upper "
        f"bound, not by measurement; {_binding(setting, chosen)}; "
        f"{money_text(left)} of {money_text(setting.budget)} left; "
        f"chosen among {_size(ranking)} configurations by the {rule}"
        + ("" if ranking.proven else "; the search for the best bounds gave up early: there may be better ones")
    )


def _size(ranking: Ranking) -> str:
    return f"{ranking.size:.0f}" if ranking.size < 1e6 else f"about {ranking.size:.2g}"


def _binding(setting: Setting, chosen: Ranked) -> str:
    """Which side limits the bound: the base once it serves nothing but large queries, else the auxiliaries."""
    rates = setting.rates
    present = [aux for aux, count in zip(rates.auxiliaries, chosen.counts[1:], strict=True) if count]
    if not present:
        return f"{rates.base.name} alone serves every query"
    leader = max(present, key=lambda aux: aux.limit)
    plateau = chosen.counts[0] * rates.q_base / (1 - leader.t) if leader.t < 1 else None
    if plateau is not None and chosen.bound >= plateau * (1 - 1e-9):
        return f"limited by {rates.base.name}, the only type for batches above {leader.limit}"
    return f"limited by the auxiliaries: {rates.base.name} still has time for smaller queries"
