"""What a router shows of itself on the probe port: its own metrics, the times it has seen, who refuses it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

import orjson
from prometheus_client.core import GaugeMetricFamily, Metric

from hetserve_router.front import ANOTHER_LEADS, Front
from hetserve_services.exposition import Families, ServingCollector
from hetserve_services.facts import Key
from hetserve_services.figures import InstanceFigures, ServiceFigures
from hetserve_shell.http.handlers import Handler, Reply
from hetserve_shell.http.limits import HttpError

LEADER: Final = "hetserve_router_leader"
RATIO: Final = "hetserve_profile_ratio"
EXPECTED: Final = "hetserve_expected_slowdown"
REFUSING: Final = "hetserve_router_refusing_instances"
_OF_SERVICE: Final = ("namespace", "service")


class RouterCollector(ServingCollector):
    """name: of the router. Only a leader shows services: a follower's zeros would keep a lost leader's load fresh."""

    def __init__(
        self, name: str, front: Front, figures: Mapping[Key, ServiceFigures], instances: InstanceFigures
    ) -> None:
        super().__init__(figures, instances, time.monotonic)
        self._name, self._front = name, front

    def collect(self) -> Iterator[Metric]:
        if self._front.serves():
            yield from super().collect()
            return
        leader = self._own()[0]
        leader.add_metric([self._name], 0)
        yield leader

    def _own(self) -> list[Any]:
        return [
            GaugeMetricFamily(LEADER, "1 while this replica takes the queries.", labels=("router",)),
            GaugeMetricFamily(
                RATIO,
                "Median of the times that instances took for queries over the profile's.",
                labels=(*_OF_SERVICE, "instance_type"),
            ),
            GaugeMetricFamily(
                EXPECTED,
                "Times the profile's that instances are expected to take at most: 1 where they share no GPU.",
                labels=(*_OF_SERVICE, "instance_type"),
            ),
            GaugeMetricFamily(REFUSING, "Ready instances that get no query, since they fail.", labels=_OF_SERVICE),
        ]

    def _add_own(self, families: Families) -> None:
        families[LEADER].add_metric([self._name], 1)
        for key, service in self._front.services.items():
            families[REFUSING].add_metric(key, len(service.refusing()))
            for kind, ratio in service.ratios.items():
                families[RATIO].add_metric((*key, kind), ratio)
                families[EXPECTED].add_metric((*key, kind), service.spec.facts.slowdowns.get(kind, 1.0))


def observed_routes(front: Front) -> dict[bytes, Handler]:
    """Of the probe port, JSON lines of services: `/times` has observed times, `/refusing` instances without queries."""

    async def times() -> Reply:
        _lead(front)
        lines = []
        for service in list(front.services.values()):
            lines.append(orjson.dumps(service.learned(), option=orjson.OPT_NON_STR_KEYS) + b"\n")
            await asyncio.sleep(0)  # queries go on between two services
        return Reply(lines, "application/jsonl")

    def refusing(_body: bytes) -> Reply:
        _lead(front)
        each = front.services.items()
        found = [{"namespace": key[0], "service": key[1], "instances": one.refusing()} for key, one in each]
        return Reply([orjson.dumps(one) + b"\n" for one in found if one["instances"]], "application/jsonl")

    return {b"/times": lambda _body: times(), b"/refusing": refusing}


def _lead(front: Front) -> None:
    """Raises HttpError on a replica that does not lead."""
    if not front.serves():
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, ANOTHER_LEADS)
