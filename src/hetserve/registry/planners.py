"""The planners with the default of each objective, and the search methods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from hetserve.registry.members import Member, Registry

Objective = Literal["MaxThroughput", "MinCost"]
OBJECTIVES: Final[tuple[Objective, ...]] = ("MaxThroughput", "MinCost")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerMember(Member):
    """Its function is a `hetserve.planning.registry.Planner`.

    objectives: those it is made for. default_for: as default. compared_for: as default of `hetserve compare`.
    evaluates: takes an evaluator. seeded: else simulates queries that it draws. judge: of a planner that tries its plan
    (a `QuickPlanner`): where its `hetserve.planning.registry.CountsJudge` is; None: it tries nothing.
    """

    objectives: tuple[Objective, ...] = OBJECTIVES
    default_for: tuple[Objective, ...] = ()
    compared_for: tuple[Objective, ...] = ()
    evaluates: bool = False
    seeded: bool = False
    bounds_total: bool = False
    judge: str | None = None

    @property
    def tries(self) -> bool:
        return self.judge is not None


PLANNERS: Final = Registry(
    PlannerMember(
        name="flow",
        where="hetserve.planning.flow.planner:plan_flow",
        about="sends each class of batches where it is served for least, tries the leading mixes, proves the plan",
        default_for=OBJECTIVES,
        compared_for=OBJECTIVES,
        seeded=True,
        bounds_total=True,
        judge="hetserve.planning.flow.planner:trial",
    ),
    PlannerMember(
        name="kairos",
        where="hetserve.planning.kairos.planner:plan_kairos",
        about="ranks what the budget buys by Kairos's upper bound; simulates nothing",
        objectives=("MaxThroughput",),
        compared_for=("MaxThroughput",),
    ),
    PlannerMember(
        name="kairos-plus",
        where="hetserve.planning.kairos.plus:plan_kairos_plus",
        about="simulates in falling order of the bound until no other bound is above what it found",
        objectives=("MaxThroughput",),
        evaluates=True,
        seeded=True,
    ),
    PlannerMember(
        name="ilp",
        where="hetserve.planning.mincost.ilp:plan_ilp",
        about="HetSev's integer program, solved exactly",
        objectives=("MinCost",),
        compared_for=("MinCost",),
        bounds_total=True,
    ),
    PlannerMember(
        name="greedy",
        where="hetserve.planning.mincost.greedy:plan_greedy",
        about="HetSev's heuristic; the plan says how far it is from the optimum",
        objectives=("MinCost",),
        compared_for=("MinCost",),
        bounds_total=True,
    ),
    PlannerMember(
        name="homogeneous",
        where="hetserve.planning.baselines.homogeneous:plan_homogeneous",
        about="the best single type",
        compared_for=OBJECTIVES,
    ),
    PlannerMember(
        name="exhaustive",
        where="hetserve.planning.baselines.exhaustive:plan_exhaustive",
        about="looks at every configuration, of which there may be at most 100,000",
        evaluates=True,
    ),
)


def default_planner(objective: str) -> str:
    return next(member.name for member in PLANNERS if objective in member.default_for)


def made_for(objective: str) -> tuple[str, ...]:
    return PLANNERS.names_of(lambda member: objective in member.objectives)


def compared_for(objective: Objective) -> tuple[str, ...]:
    return PLANNERS.names_of(lambda member: objective in member.compared_for)


def evaluating() -> tuple[str, ...]:
    return PLANNERS.names_of(lambda member: member.evaluates)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchMember(Member):
    """Its function is a `hetserve.planning.search.Method`.

    needs: module of an optional extra; None: none.
    """

    needs: str | None = None


SEARCH_METHODS: Final = Registry(
    SearchMember(
        name="random",
        where="hetserve.planning.search.methods:random_search",
        about="tries configurations in a random order",
    ),
    SearchMember(
        name="annealing",
        where="hetserve.planning.search.methods:annealing",
        about="walks to neighbours, at first also to worse ones",
    ),
    SearchMember(
        name="genetic",
        where="hetserve.planning.search.methods:genetic",
        about="breeds configurations from the best ones",
    ),
    SearchMember(
        name="bayesian",
        where="hetserve.planning.search.bayesian:run",
        about="tries where a Gaussian process expects the largest improvement",
        needs="sklearn",
    ),
)
