"""What instances hold, and what a plan for the peak costs: worked out here by the operator's own planner."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

from harness.load.seen import Ready
from hetserve.api.inference_service import InferenceService
from hetserve.api.manifests import Manifests
from hetserve.base.units import QPS, MicroDollarsPerHour
from hetserve.planning import Problem, Unplannable, build_problem
from hetserve.planning.plan import Plan, summary
from hetserve.planning.reach import PlannerJob
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.plans.capacity import Holds, capacity
from hetserve.scaling.plans.counts import cost_of


def problem_of(service: InferenceService, manifests: Manifests) -> Problem:
    """The service's problem without a load. Raises RuntimeError: why there is none."""
    built = build_problem(service, manifests.types, manifests.profiles, load=QPS(1.0))
    match built:
        case Problem():
            return replace(built, load=None)
        case Unplannable(message=why):
            raise RuntimeError(f"{service.metadata.name}: {why}")


@dataclass(frozen=True, slots=True)
class Static:
    """The cheapest instances for one load, all day. used: share of what they hold in simulation that the load is."""

    load: float
    used: float
    summary: str
    hourly: MicroDollarsPerHour


def static_plan(problem: Problem, load: float, used: float) -> Static | None:
    """The plan for a load [queries/s] without scaling; None: no plan holds it."""
    asked = replace(problem, load=QPS(load / used), saturation_threshold=1.0)
    answer = Answers()(PlannerJob(asked))
    if not isinstance(answer, Plan) or not answer.feasible:
        return None
    return Static(load, used, summary(answer.counts), MicroDollarsPerHour(cost_of(answer.counts, problem)))


class Held:
    """Queries/s that ready instances hold in simulation, worked out beside the view, each counts once."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._answers = Answers()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="held")
        self._known: dict[Ready, Future[float | None]] = {}

    def of(self, ready: Ready | None) -> float | None:
        """What they hold; None: not known, or not yet."""
        if ready is None:
            return None
        if ready not in self._known:
            self._known[ready] = self._pool.submit(self._work, ready)
        found = self._known[ready]
        return found.result() if found.done() and not found.cancelled() else None

    def finish(self, seconds: float) -> None:
        """Waits for what is under way for so long, and begins nothing more."""
        wait(self._known.values(), seconds)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, ready: Ready) -> float | None:
        found = capacity(self._problem, ready, self._answers)
        return found.qps if isinstance(found, Holds) else None
