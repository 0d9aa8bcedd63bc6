"""One poll of the services with queries of their own: each is asked by itself, and fails by itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from hetserve.demand.answers import Series
from hetserve.demand.grouped import buckets_of
from hetserve.demand.observed import Trouble
from hetserve.demand.queries import MetricsQuerySpec, OwnQueries, Part, own_queries
from hetserve.demand.reading import PrometheusSamples, read_demand, unknown
from hetserve_operator.demand.asking import QUERIES, Answer, Asking, Pauses, Poll, ask_all
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.prometheus import CONNECTIONS, PrometheusError
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.workqueue import Key


class OwnPoll(Poll):
    """Asks the queries of services. interval: seconds between two polls; clock: seconds."""

    source = QUERIES

    def __init__(
        self,
        cache: DemandCache,
        prometheus: Asking,
        metrics: OperatorMetrics,
        clock: Callable[[], float],
        interval: float,
    ) -> None:
        super().__init__(cache, prometheus, metrics, clock)
        self._pauses: Pauses[OwnQueries] = Pauses(clock, interval)

    async def ask(self) -> float | None:
        """Prometheus's time; None: nothing was to be asked, or it does not answer."""
        members = self._cache.to_ask(own=True)
        self._pauses.keep(members)
        due = {key: (one, one.own) for key, one in members.items() if one.own and self._pauses.is_due(key, one.own)}
        at = self._clock()
        now = await self.time(due) if due else None
        if now is None:
            return None
        self.settle()
        turns = asyncio.Semaphore(CONNECTIONS)

        async def one(key: Key, wanted: MetricsQuerySpec, own: OwnQueries) -> None:
            async with turns:
                asked_at = self._clock()
                await self._ask_one(key, wanted, own, now + (asked_at - at), asked_at)

        await asyncio.gather(*(one(key, *rest) for key, rest in due.items()))
        return now

    async def _ask_one(self, key: Key, wanted: MetricsQuerySpec, own: OwnQueries, now: float, at: float) -> None:
        queries = own_queries(wanted, own)
        answers = dict(zip(queries, await ask_all(self._prometheus, queries.values(), now), strict=True))
        rate = answers[Part.RATE]
        if isinstance(rate, PrometheusError):
            self._rate_failed(key, wanted, own, rate, at)
            return
        self._pauses.settle([key])
        last = queries[Part.RATE].last_moment(now)
        answered = _answered(rate, answers, last)
        self._cache.take(key, wanted, read_demand(wanted, answered, now), at)
        self.count("ok")

    def _rate_failed(
        self, key: Key, wanted: MetricsQuerySpec, own: OwnQueries, error: PrometheusError, at: float
    ) -> None:
        """A refused query is wrong until it is edited, or Prometheus knows more; one without an answer may get one."""
        self.count("refused" if error.refused else "failed")
        message = f"spec.metrics.queries.{Part.RATE} {own.rate!r}: {error}"
        if error.refused:
            message = f"{message}; it must be PromQL for queries/s"
            self._cache.take(key, wanted, unknown(Trouble.QUERY_REFUSED, message), at)
        else:
            self._cache.fail(key, message)
        self._pauses.fail(key, own)


def _answered(rate: list[Series], answers: Mapping[Part, Answer], last: float) -> PrometheusSamples:
    """Answers about one service; those beside the rate that failed are notes."""
    notes: list[str] = []
    latency, batches = answers.get(Part.LATENCY), answers.get(Part.BATCH_SIZES)
    if isinstance(latency, PrometheusError):
        notes.append(f"attainment is not known: spec.metrics.queries.{Part.LATENCY}: {latency}")
        latency = None
    buckets: dict[float, float] | None = None
    trouble: object = batches if isinstance(batches, PrometheusError) else None
    if isinstance(batches, list):
        try:
            buckets = buckets_of(batches)
        except ValueError as error:
            trouble = error
    if trouble is not None:
        notes.append(f"the mix of batch sizes is not known: spec.metrics.queries.{Part.BATCH_SIZES}: {trouble}")
    return PrometheusSamples(last=last, rate=rate, latency=latency, buckets=buckets, notes=tuple(notes))
