"""The operator of the story with its real questions: the load comes from scrapes of a Prometheus, in virtual time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, Final

from hetserve.api.names import LABEL_INSTANCE_TYPE
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.replay import replay
from hetserve.scaling.record.ring import record_of_entry, ring_of
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.polls import DemandPoller
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.plans.queue import PlannerQueue
from hetserve_operator.workqueue import Key
from scaling_story import HEAVY, POLL, RM2, SERVICE, Story
from simulated_prometheus import EPOCH, SimulatedPrometheus

Json = dict[str, Any]
WINDOW: Final = 20.0
"""Of each rate [s]."""
NOTICED: Final = WINDOW + 2 * POLL
"""Seconds until a new load fills the window of the rate, is scraped and asked for."""
RING: Final = "/api/v1/namespaces/default/configmaps/rm2-decisions"


class MeasuredStory(Story):
    """`load` is what arrives; the operator knows what its poller finds. A round takes `POLL` seconds of the loop."""

    def __init__(self) -> None:
        self.prometheus = SimulatedPrometheus()
        self.polling: list[asyncio.Future[None]] = []
        super().__init__()
        self.clock = asyncio.get_running_loop().time()
        self.prometheus.loads = {("default", "rm2"): lambda at: self.load.at(at - EPOCH)}
        self.prometheus.in_time = lambda at: self._share(at - EPOCH)
        self.sizes(large=0.0)
        self.spec(lambda spec: spec["metrics"].update(window=f"{WINDOW:g}s"))

    def sizes(self, *, large: float) -> None:
        """Share of large queries that the histogram of the last ten minutes counts."""
        self.prometheus.buckets = {"1.0": 60_000.0 * (1 - large), f"{HEAVY}.0": 60_000.0, "+Inf": 60_000.0}

    def moment(self) -> datetime:
        return datetime.fromtimestamp(EPOCH + self.clock, UTC)

    _now = moment

    def _minds(self) -> PlannerQueue:
        """Of a process with a poller of its own."""
        plans, clock = super()._minds(), asyncio.get_running_loop().time
        self.measured = DemandCache(clock, self.woken.add, configured=True, allow_queries=True, is_quiet=self._is_quiet)
        ways = self.prometheus, self.prometheus
        poller = DemandPoller(self.measured, *ways, self._wants_of_all, OperatorMetrics(), interval=POLL, clock=clock)
        for loop in self.polling:
            loop.cancel()
        self.polling = [asyncio.ensure_future(loop()) for loop in poller.loops()]
        return plans

    def _wants_of_all(self) -> dict[Key, Any]:
        keys = [Key(*path.split("/")[-3::2]) for path, _ in self.api.items("inferenceservices")]
        return {key: wanted for key in keys if (wanted := self.wanted(key)) is not None}

    def _poll(self) -> None:
        """The poller does it beside."""
        self._count_late()

    def _share(self, second: float) -> float:
        """Share of the queries that were in time at a time of the story."""
        return next((share for at, share in reversed(self.load.shares) if at <= second), 1.0)

    async def round(self) -> bool:
        well = await super().round()
        await asyncio.sleep(self.clock - asyncio.get_running_loop().time())
        return well

    async def until(self, second: float) -> list[dict[str, int]]:
        """Rounds until a time of the story; instances by type that Deployments ask for, after each."""
        seen = []
        while self.clock < second:
            await self.round()
            seen.append(self.asked())
        return seen

    def asked(self) -> dict[str, int]:
        """Instances of rm2 that its Deployments ask for, by type; without zeros."""
        found = {}
        for _, raw in self.api.items("deployments"):
            kind = raw["spec"]["template"]["metadata"]["labels"][LABEL_INSTANCE_TYPE]
            if raw["metadata"]["name"].startswith("rm2") and raw["spec"]["replicas"]:
                found[kind] = raw["spec"]["replicas"]
        return found

    def newest(self) -> float:
        """The newest rate that is measured [queries/s]."""
        found = self.measured.demand(RM2, self.wanted(RM2))
        assert found is not None
        return float(found.samples[-1].qps)

    def told(self) -> list[tuple[str, str]]:
        """(action, reason) of the last decisions, the newest first."""
        return [(one["action"], one["reason"]) for one in self.decisions()]

    def decisions(self) -> list[Json]:
        """As the status has them, the newest first."""
        found: list[Json] = self.api.objects[SERVICE]["status"].get("lastDecisions", [])
        return found

    def made(self, reason: str) -> float:
        """When the newest decision of this reason was made, in seconds of the story."""
        decision = next(one for one in self.decisions() if one["reason"] == reason)
        return datetime.fromisoformat(decision["time"]).timestamp() - EPOCH

    def replayed(self) -> list[str]:
        """Reasons of all records, the oldest first; each was decided again from its facts, identically."""
        records = [record_of_entry(entry) for entry in ring_of(self.api.objects[RING])]
        assert all(replay(one, Answers(quick=True), Answers(quick=True)).identical for one in records)
        return [str(one.decision.reason) for one in records]
