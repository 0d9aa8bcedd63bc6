"""A service that follows its load, on twelve GPUs of each type; and an operator whose questions are answered later."""

from __future__ import annotations

from typing import Any

from hetserve.base.units import Seconds
from hetserve.reconcile.plans.planner import PlannerTimedOut
from hetserve_operator.plans.queue import PlannerQueue
from testing.builders import REMOVED, instance_type, model_profile, service
from testing.operator import SimulatedOperator
from testing.operator.planning import worked_out
from testing.scenes import node

Json = dict[str, Any]
_EACH = {"intercept": "99.9999ms", "slope": "0.0001ms"}


def scene(
    scaling: Json | None = None, *, kinds: tuple[str, ...] = ("t4",), launch: str = "", **spec: Any
) -> list[Json]:
    """An instance of each kind serves 10 queries/s; at 80 % it is planned for 8, so that 30 queries/s take four.

    scaling, spec: more fields of the service's. launch: time that an instance of a kind takes; empty: the default.
    """
    of_kind = {"spec.launchTime": launch} if launch else {}
    return [
        *(node(f"{kind}-{i}", kind, gpus=1) for kind in kinds for i in range(12)),
        *(instance_type(kind, of_kind) for kind in kinds),
        *(model_profile(f"rm2-{k}", {"spec.instanceType": k, "spec.latency": {"linear": _EACH}}) for k in kinds),
        service(
            "rm2",
            {
                "spec.objective": "MinCost",
                "spec.planner": "ilp",
                "spec.budget": REMOVED,
                "spec.load": REMOVED,
                "spec.metrics": {"source": "Hetserve"},
                "spec.scaling": {"scaleUp": {"lookAhead": "None"}, **(scaling or {})},
                **{f"spec.{key}": value for key, value in spec.items()},
            },
        ),
    ]


class PlansLater(SimulatedOperator):
    """Its questions are answered after each round, unless `busy`; of plans for a load not while `fails`."""

    def __init__(self) -> None:
        self.book = PlannerQueue(lambda: self.clock, lambda _key: None)
        self.busy = self.fails = False
        super().__init__(plans=self.book)

    async def round(self) -> bool:
        """As of the operator; it is not over while there are answers to look at."""
        well = await super().round()
        while not self.busy and (ticket := self.book.take()) is not None:
            stopped = self.fails and ticket.work.kind == "Decision"
            answer = PlannerTimedOut("ilp", Seconds(60.0)) if stopped else worked_out(ticket.work)
            self.book.settle(ticket, answer)
            well = False
        return well
