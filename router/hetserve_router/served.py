"""One service: its core's decisions, carried out on its queries and instances."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from hetserve.api.inference_service import InferenceService
from hetserve.api.model_profile import ModelProfile
from hetserve.api.service.dispatch import DispatchSpec
from hetserve.base.failures import Failure
from hetserve.base.units import parse_duration
from hetserve.demand import contract
from hetserve.dispatch import make_policy
from hetserve.planning.offers import namespace_of
from hetserve.profiles import LatencyProfile, profile_from_spec
from hetserve.routing.actions import Abandon, Action, Drop, Probe, Send, WakeAt
from hetserve.routing.pace import RefusalPace
from hetserve.routing.predictions import routed_service
from hetserve.routing.router import QueueLimits, ServiceRouter
from hetserve.serving.services import Service
from hetserve_router.access_log import CLIENT_GONE, AccessLog
from hetserve_router.exchange import QueryExchange
from hetserve_router.inference import InferenceFacts
from hetserve_router.instances import InstanceAddress, InstanceLink, Later
from hetserve_services.facts import Key, ServiceFacts, threshold_batches
from hetserve_services.figures import InstanceFigures, Seat, ServiceFigures
from hetserve_shell.http.limits import HttpError
from hetserve_shell.http.takers import Head

log = logging.getLogger(__name__)

MOST_QUESTIONS: Final = 16
"""Requests about its model that a service has under way at most."""
_FAULT: Final = HTTPStatus.BAD_REQUEST


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """What one service may hold. body: bytes of one; bodies: of all; open: queries that have begun and not ended."""

    body: int = 64 << 20
    bodies: int = 128 << 20
    open: int = 4096


@dataclass(frozen=True, slots=True)
class ServedSpec:
    """A service as it is declared, and how its queries are dispatched."""

    facts: ServiceFacts
    dispatch: DispatchSpec

    @classmethod
    def of(cls, service: InferenceService, facts: ServiceFacts) -> ServedSpec | None:
        """None: the service declares no dispatch."""
        dispatch = service.spec.dispatch
        return None if dispatch is None else cls(facts, dispatch)

    @property
    def queue(self) -> QueueLimits:
        deadline = self.dispatch.deadline
        return QueueLimits(math.inf if deadline is None else parse_duration(deadline), self.dispatch.max_queue)

    def latencies(self) -> dict[str, LatencyProfile]:
        return {kind: profile_from_spec(profile.spec) for kind, profile in self.facts.profiles.items()}

    def service(self) -> Service:
        facts = self.facts
        return routed_service(
            facts.title,
            self.latencies(),
            facts.slo,
            facts.mix.batches,
            make_policy(self.dispatch.policy),
            expected=facts.slowdowns,
        )


class ServedService:
    """now: monotonic clock [s]; that of uvloop's loop counts whole milliseconds. later: as the loop's `call_later`."""

    def __init__(
        self,
        spec: ServedSpec,
        limits: ServiceLimits,
        table: InstanceFigures,
        access_log: AccessLog | None = None,
    ) -> None:
        self.spec, self.limits, self.access_log = spec, limits, access_log or AccessLog("none")
        self.now: Callable[[], float] = time.monotonic
        self.later: Later = _of_the_loop
        self._profiles = spec.latencies()
        self.ratios: dict[str, float] = {}
        """By type, the median of observed times over the profile's."""
        self.core = ServiceRouter(spec.service(), spec.queue)
        facts = spec.facts
        self.figures = ServiceFigures(
            facts.key, facts.model, facts.slo, contract.batch_bounds(threshold_batches(facts))
        )
        self._table = table
        self.pace = RefusalPace()
        self._queries: dict[int, QueryExchange] = {}
        self._standing: dict[str, InstanceLink] = {}
        """By uid; and those that have left and still serve, by the core's number:"""
        self._links: dict[int, InstanceLink] = {}
        self._next_query = self._next_instance = self._held = self._open = self._questions = self._turns = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def key(self) -> Key:
        return self.spec.facts.key

    @property
    def title(self) -> str:
        return self.spec.facts.title

    @property
    def model(self) -> str:
        return self.spec.facts.model

    def check_model(self, name: str) -> None:
        """Raises HttpError for another model than the service's."""
        if name != self.model:
            raise HttpError(HTTPStatus.NOT_FOUND, f"model {name[:100]}: {self.title} serves model {self.model}")

    # What a service holds

    def admit(self, length: int | None) -> None:
        """Raises HttpError where the service holds too much already. length: of a body that is to come."""
        if length is not None and length > self.limits.body:
            raise HttpError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body of {length} bytes: at most {self.limits.body} are taken"
            )
        if self._open >= self.limits.open:
            raise self.refused(HTTPStatus.TOO_MANY_REQUESTS, f"{self._open} queries are open, as many as may")
        if length:
            self._check_bytes(length)

    def _check_bytes(self, more: int) -> None:
        if self._held + more > self.limits.bodies:
            why = f"its queries hold {self._held} bytes; at most {self.limits.bodies} may"
            raise self.refused(HTTPStatus.TOO_MANY_REQUESTS, why)

    def refused(self, status: HTTPStatus, why: str) -> HttpError:
        self._count_refused()
        return HttpError(status, f"{self.title}: {why}", retry_after=1)

    def hold(self, size: int) -> None:
        """A query begins, with a body of so many bytes."""
        self._held += size
        self._open += 1

    def hold_more(self, size: int) -> None:
        """The body of a query whose length was not known has so many bytes. Raises HttpError where that is too much."""
        self._check_bytes(size)
        self._held += size

    def release(self, size: int) -> None:
        self._held -= size
        self._open -= 1

    def begin_question(self) -> InstanceLink:
        """The instance to ask about the model, in turn, and if possible one that gets queries; then `end_question`.

        Raises HttpError where there is none, or much is asked already.
        """
        if not self._standing:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"{self.title}: no instance is ready", retry_after=5)
        if self._questions >= MOST_QUESTIONS:
            why = f"{self.title}: {MOST_QUESTIONS} requests about the model are under way, as many as may"
            raise HttpError(HTTPStatus.TOO_MANY_REQUESTS, why, retry_after=1)
        link = min(self._standing.values(), key=lambda one: (one.is_draining + 2 * bool(one.failure), one.turn))
        self._questions += 1
        self._turns += 1
        link.turn = self._turns
        return link

    def end_question(self) -> None:
        """A request about the model has ended."""
        self._questions -= 1

    def refuses(self, head: Head, error: HttpError) -> None:
        """A request is refused that is no query of the core."""
        self.slow(error)
        self.access_log.refused(head, error.status, self.title)

    def slow(self, error: HttpError) -> None:
        """Sets the pause of a refusal of this service."""
        slow(error, self.pace, self.now())

    def broken_off(self, head: Head) -> None:
        """A query never came whole: its client left, or it was refused meanwhile."""
        if head.refused == HTTPStatus.SERVICE_UNAVAILABLE:
            self._count_refused()
        self.access_log.refused(head, head.refused or CLIENT_GONE, self.title)

    def _count_refused(self) -> None:
        """Of a query whose size is not known, and so in no bucket of sizes: the mix stays true."""
        self.core.refused()
        self.figures.received += 1

    @property
    def held(self) -> tuple[int, int]:
        """Open queries and the bytes of their bodies."""
        return self._open, self._held

    # Events of queries

    def arrived(self, query: QueryExchange, facts: InferenceFacts, within: float) -> None:
        """A query is whole. within: that a gateway waits for its answer [s], infinite: none does."""
        number = self._next_query
        self._next_query += 1
        now = query.arrived = self.now()
        query.number = number
        self._queries[number] = query
        if facts.timeout is not None and facts.timeout < within:
            within = facts.timeout
        began, before = query.began, self.core.counts.received
        hard = began + within
        actions = self.core.arrived(number, facts.items, now, hard, began=began, is_retriable=not facts.in_sequence)
        if self.core.counts.received > before:
            self.figures.receive_one(facts.items)
        self._perform(actions)

    def answered(self, query: QueryExchange) -> None:
        now, link = self.now(), self._freed(query)
        if query.reply is not None and link is not None:
            self._table.serve_one(link.row, now - query.arrived, self.figures.latencies)
            self.access_log.ended(query, self.title, query.status, now)
            query.reply = None
        self._perform(self.core.answered(query.number, now, is_typical=query.status < _FAULT))
        self._forget(query.number)

    def failed(self, query: QueryExchange, failure: Failure, reason: str) -> None:
        link = self._freed(query, f"{failure}: {reason}")
        log.warning("%s: instance %s: %s (%s)", self.title, link.name if link else "?", reason, failure)
        self._perform(self.core.failed(query.number, failure, self.now()))
        if query.reply is None:
            self._forget(query.number)

    def gone(self, query: QueryExchange) -> None:
        self.access_log.ended(query, self.title, CLIENT_GONE, self.now())
        self._perform(self.core.gone(query.number, self.now()))
        if query.instance is None:
            self._forget(query.number)

    # Events of instances

    def stand(self, ready: Iterable[InstanceAddress], draining: Iterable[str] = ()) -> None:
        """Takes the instances that serve now. draining: uids of those that end what they have."""
        found = {one.uid: one for one in ready}
        ending = set(draining)
        for uid, link in list(self._standing.items()):
            if uid in ending:
                if not link.is_draining:
                    link.is_draining = True
                    self._perform(self.core.draining(link.number, self.now()))
            elif found.get(uid) != link.address:  # gone, or asked elsewhere from now on
                del self._standing[uid]
                link.has_left = True
                self._perform(self.core.left(link.number, self.now()))
                self._retire(link)
        for uid in sorted(found, key=lambda each: (found[each].name, each)):
            link = self._standing.get(uid) or self._linked(found[uid])
            if link.is_draining:
                link.is_draining = False
                self._perform(self.core.joined(link.number, link.address.type, self.now()))
                if why := self.core.ignored().get(link.number):
                    log.warning("%s: instance %s gets no query: %s", self.title, link.name, why)

    def revise(self, spec: ServedSpec) -> None:
        """Takes the service as it is declared now."""
        if spec == self.spec:
            return
        self.spec, self._profiles = spec, spec.latencies()
        self.figures.model = spec.facts.model
        self.figures.widen(threshold_batches(spec.facts))
        if self.figures.slo != spec.facts.slo:
            self.figures.slo, self.figures.latencies = spec.facts.slo, contract.latency_bounds(spec.facts.slo)
            self._table.forget_durations(self.key)
        self._perform(self.core.revise(spec.service(), spec.queue, self.now()))

    def refusing(self) -> dict[str, str]:
        """Ready instances that get no query, by name, and why."""
        ignored = self.core.ignored()
        ready = [link for link in self._standing.values() if not link.is_draining]
        return {link.name: why for link in ready if (why := link.failure or ignored.get(link.number, ""))}

    def learned(self) -> dict[str, Any]:
        """Observed times with the profiles that they may correct, for `hetserve profile learned`."""
        facts = self.spec.facts
        types: dict[str, dict[int, list[float]]] = {}
        for (kind, batch), seconds in self.core.observed.times().items():
            if kind in facts.profiles:
                types.setdefault(kind, {})[batch] = [round(each, 6) for each in seconds]
        found = [
            {"profile": _manifest(facts.profiles[kind]), "isShared": kind in facts.slowdowns, "times": times}
            for kind, times in sorted(types.items())
        ]
        return {"namespace": facts.namespace, "service": facts.name, "types": found}

    def count_present(self) -> None:
        """Brings figures up to date that are read at a scrape only."""
        self.ratios = self.core.observed.ratios(self._profiles)
        self.figures.waiting, self.figures.dropped = self.core.waiting, self.core.counts.dropped
        for link in self._links.values():
            self._table.in_flight[link.row] = 0
        for link in self._links.values():
            if link.query is not None:
                self._count_busy(link)
                self._table.in_flight[link.row] += link.query.reply is not None

    # Inside

    def _linked(self, address: InstanceAddress) -> InstanceLink:
        link = InstanceLink(
            self._next_instance, address, self._table.row_of(Seat(self.key, address.name, address.type))
        )
        self._next_instance += 1
        self._standing[address.uid] = self._links[link.number] = link
        return link

    def _count_busy(self, link: InstanceLink) -> None:
        now = self.now()
        self._table.serve_on(link.row, now - link.counted)
        link.counted = now

    def _freed(self, query: QueryExchange, failure: str = "") -> InstanceLink | None:
        """Its instance serves it no more, and is forgotten if it has left. failure: of the instance."""
        link, query.instance = query.instance, None
        if link is not None:
            self._count_busy(link)
            link.query, link.failure = None, failure
            if link.has_left:
                self._retire(link)
        return link

    def _retire(self, link: InstanceLink) -> None:
        if link.query is None and self._links.pop(link.number, None) is not None:
            link.close()
            if all(other.row != link.row for other in self._links.values()):
                self._table.seats[link.row].gone_at, self._table.in_flight[link.row] = self.now(), 0

    def _forget(self, number: int) -> None:
        query = self._queries.pop(number, None)
        if query is not None:
            query.ended()

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Send):
                query, link = self._queries[action.query], self._links[action.instance]
                link.query, link.counted = query, self.now()
                query.send(link, link.counted)
            elif isinstance(action, WakeAt):
                self._wake_at(action.at)
            elif isinstance(action, Drop):
                self._refuse(action)
            elif isinstance(action, Abandon):
                self._abandon(self._queries[action.query])
            else:
                self._probe(action)

    def _refuse(self, action: Drop) -> None:
        query = self._queries[action.query]
        is_awaited = query.reply is not None
        query.refuse(action)
        if is_awaited:
            self.access_log.ended(query, self.title, query.status, self.now())
        if query.instance is None:
            self._forget(action.query)

    def _abandon(self, query: QueryExchange) -> None:
        query.abandon()
        self._freed(query, "it has not answered in time")
        if query.reply is None:
            self._forget(query.number)

    def _probe(self, action: Probe) -> None:
        link = self._links[action.instance]

        def heard(is_ready: bool) -> None:
            link.failure = "" if is_ready else link.failure or "its model is not ready"
            self._perform(self.core.probed(action.instance, is_ready, self.now()))

        link.probe(self.model, heard, self.later)

    def _wake_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        # Not before `at`, or the core asks again at once.
        delay = math.ceil(1e3 * max(at - self.now(), 0.0)) / 1e3 if at < math.inf else None
        self._timer = None if delay is None else self.later(delay, self._wake)

    def _wake(self) -> None:
        self._timer = None
        self._perform(self.core.wake(self.now()))


def _of_the_loop(delay: float, call: Callable[[], None]) -> asyncio.TimerHandle:
    return asyncio.get_running_loop().call_later(delay, call)


def _manifest(profile: ModelProfile) -> dict[str, Any]:
    metadata = {"name": profile.metadata.name, "namespace": namespace_of(profile)}
    spec = profile.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"apiVersion": profile.api_version, "kind": profile.kind, "metadata": metadata, "spec": spec}


def slow(error: HttpError, pace: RefusalPace, now: float) -> None:
    """Sets the pause of a refusal that is made now [s]; a connection that closes costs its client enough."""
    if not error.closes:
        error.pause = pace.pause(now)
