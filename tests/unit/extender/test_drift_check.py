"""The comparison with the API server: in pages, told only what two readings agree on, zero where all is well."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from hetserve.base.units import Seconds
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.compare import Kind
from hetserve.placement.placer import Placer
from hetserve_extender.observe.drift import BOUND_PODS, NODES, PODS, DriftCheck
from hetserve_extender.observe.metrics import Metrics
from hetserve_shell.kube.client import Answer, ApiStatusError
from testing.cluster import gpu_node, gpu_pod
from testing.kit.apiserver import FakeApiServer

Json = dict[str, Any]
SIZE = 2


class PagedApi(FakeApiServer):
    """Answers lists as the API server does: at most `SIZE` objects and where to go on."""

    async def request(self, method: str, path: str, **options: Any) -> Answer:
        query = dict(options.pop("query", None) or {})
        if "limit" in query:
            assert query.get("fieldSelector") == (BOUND_PODS if path.endswith("pods") else None)
            query["limit"] = str(SIZE)
        return await super().request(method, path, query=query, **options)


@dataclass
class Scene:
    """Five bound pods on three nodes; `between` runs while the check waits for its second reading."""

    api: PagedApi = field(default_factory=PagedApi)
    placer: Placer = field(default_factory=lambda: Placer(clock=lambda: Seconds(0.0), hold=Seconds(30.0)))
    told: list[dict[Kind, int]] = field(default_factory=list)
    between: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        for number in range(3):
            self.api.add(gpu_node(f"n{number}"))
        for number in range(5):
            self.api.add(gpu_pod(f"p{number}", node=f"n{number % 3}", gpu="0", model=f"m{number}"))
        NodeEventHandler(self.placer).replace(self.api.listing("/api/v1/nodes"))
        PodEventHandler(self.placer).replace(self.api.listing("/api/v1/pods"))

    def check(self) -> DriftCheck:
        async def sleep(_seconds: float) -> None:
            self.between()

        return DriftCheck(self.api, self.placer, lambda found: self.told.append(dict(found)), sleep)


async def test_a_ledger_without_drift_reports_zero_of_every_kind() -> None:
    scene = Scene()
    assert await scene.check().check() == ()
    assert scene.told == [dict.fromkeys(Kind, 0)]
    lists = [path for method, path, _ in scene.api.calls if method == "GET"]
    assert lists == ["/api/v1/pods"] * 3 + ["/api/v1/nodes"] * 2, "read once, in pages"


async def test_a_drift_that_persists_is_counted_by_kind() -> None:
    scene = Scene()
    scene.placer.ledger.release("uid-p4")
    found = await scene.check().check()
    assert [one.text for one in found] == [
        "GPU 0 of node n1 has 28672 MiB free in the ledger, 24576 by the cluster's pods",
        "pod default/p4 holds GPU 0 of node n1 and is not booked",
    ]
    assert scene.told == [dict.fromkeys(Kind, 0) | {Kind.NOT_BOOKED: 1, Kind.OTHER_FREE: 1}]


async def test_a_delay_of_the_watch_is_no_drift() -> None:
    scene = Scene()
    gone = scene.api.pod("p4")
    scene.api.remove(gone)
    scene.between = lambda: PodEventHandler(scene.placer).apply("DELETED", gone)
    assert await scene.check().check() == ()
    assert scene.told == [dict.fromkeys(Kind, 0)]


async def test_a_list_that_fails_tells_nothing() -> None:
    scene = Scene()
    scene.api.faults["GET"] = deque([500])
    with pytest.raises(ApiStatusError):
        await scene.check().check()
    assert scene.told == []


@dataclass
class Informer:
    """A watch that has told of an earlier revision, or of a later one."""

    path: str = PODS
    reached: int = 0
    relists: int = 0

    async def relist(self) -> None:
        self.relists += 1


def heard_by(scene: Scene, *informers: Any) -> DriftCheck:
    check = scene.check()
    check.informers = informers
    return check


@pytest.mark.parametrize(("ahead", "relists"), [(0, 0), (1, 1)])
async def test_a_list_below_our_own_revision_is_of_a_restored_etcd(ahead: int, relists: int) -> None:
    scene = Scene()
    nodes = Informer(NODES, scene.api.revision + ahead)
    await heard_by(scene, nodes).check()
    assert nodes.relists == relists


async def test_what_two_readings_miss_is_listed_anew() -> None:
    scene = Scene()
    scene.placer.ledger.release("uid-p4")
    pods, nodes = Informer(), Informer(NODES)
    await heard_by(scene, pods, nodes).check()
    assert (pods.relists, nodes.relists) == (1, 0)


async def test_what_one_reading_misses_may_be_the_watchs_delay() -> None:
    scene, pods = Scene(), Informer()
    gone = scene.placer.ledger.release("uid-p4")
    assert gone is not None
    scene.between = lambda: PodEventHandler(scene.placer).apply("ADDED", scene.api.pod("p4"))
    await heard_by(scene, pods).check()
    assert pods.relists == 0


def test_the_metric_has_every_kind() -> None:
    scene = Scene()
    metrics = Metrics(scene.placer)
    metrics.drift(dict.fromkeys(Kind, 0) | {Kind.OTHER_GPU: 2})
    values = {
        kind: metrics.registry.get_sample_value("hetserve_ledger_drift", {"kind": kind.name.lower()}) for kind in Kind
    }
    assert values == dict.fromkeys(Kind, 0) | {Kind.OTHER_GPU: 2}
