"""What the scenarios on kind share: one cluster, hetserve installed as a scenario needs it, a namespace each.

`make e2e-kind` runs them in two processes. A scenario has the cluster alone, unless it is marked `beside`: it installs,
disturbs and removes nothing, and runs beside others of that mark on one installation.
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from enum import Enum
from typing import Final

import pytest

from harness import limits
from harness.kind import NAME, KindCluster, cache
from harness.nodes import Gpus
from harness.turns import first_of_run, turn
from harness.waiting import wait_until
from hetserve.api.names import GFD_COUNT, GFD_MEMORY, GFD_PRODUCT

_RUN: Final = secrets.token_hex(2)
"""A namespace of an earlier run may be going still."""
_numbers = itertools.count(1)
GPUS: Final = Gpus("Labelled-T4", 15360, 2)
"""What a real node's labels say; the machine has none."""
CLUSTER: Final = cache() / f"turns-{NAME}"
"""Lock of the cluster."""
REAL_GPUS: Final = cache() / f"turns-{NAME}-gpus"
"""Lock of the labels of the real nodes."""
BEGUN: Final = cache() / f"turns-{NAME}-begun"
"""Lock of what one scenario does for all; names the last run."""


class Place(Enum):
    """What a scenario wants of the cluster."""

    NONE = 0
    ALONE = 1
    SHARED = 2


class Here:
    """What this process has of the cluster."""

    def __init__(self) -> None:
        self._turn = ExitStack()
        self._place = Place.NONE

    def take(self, place: Place) -> None:
        """Waits for it."""
        if place is self._place:
            return
        self.leave()
        if place is not Place.NONE:
            self._turn.enter_context(turn(CLUSTER, alone=place is Place.ALONE))
        self._place = place

    def leave(self) -> None:
        """Lets others have it."""
        self._turn.close()
        self._place = Place.NONE


_here = Here()
_used: list[str] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        if item.path.parent.name == "kind":
            item.add_marker(pytest.mark.kind)
            item.add_marker(pytest.mark.timeout(limits.LONGEST_TEST))
    items.sort(key=_turn)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Function, nextitem: pytest.Function | None) -> Generator[None, object, object]:
    """Waits for the scenario's place, outside its limit of time. Who is alone stays so for the next that wants it."""
    place = _place(item)
    _here.take(place)
    try:
        return (yield)
    finally:
        if not (place is Place.ALONE and nextitem is not None and _place(nextitem) is Place.ALONE):
            _here.leave()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a scenario that failed goes what was there then: its fixtures take it away."""
    report = yield
    if _place(item) is Place.NONE:
        return report
    report.user_properties.append(("cluster", NAME))
    if report.failed and call.when == "call":
        kind = KindCluster.attached()
        report.sections.append(("hetserve in the cluster", kind.shown()))
        kind.kube.close()
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Notes that a scenario was on the cluster, in this process or one that it started."""
    if ("cluster", NAME) in report.user_properties:
        _used.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Nothing of hetserve is in the cluster at the end, unless a scenario failed."""
    one_of_several = hasattr(session.config, "workerinput")
    if _used and not (session.testsfailed or one_of_several):
        try:
            _clear_up()
        except Exception as error:  # it must not take the report of the scenarios with it
            print(f"\nhetserve is left in the cluster: {error}")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _clear_up() -> None:
    kind = KindCluster.attached()
    with turn(CLUSTER):
        kind.clear()
        _without_gpus(kind)
    kind.kube.close()


def _place(item: pytest.Item) -> Place:
    names = item.fixturenames if isinstance(item, pytest.Function) and item.get_closest_marker("kind") else ()
    if "cluster" not in names:
        return Place.NONE
    return Place.SHARED if item.get_closest_marker("beside") else Place.ALONE


def _turn(item: pytest.Function) -> int:
    """Who installs for itself comes first; the others use one installation: who disturbs it, who takes it away and
    installs it anew, and who only looks at it."""
    names = item.fixturenames if item.path.parent.name == "kind" else ()
    if "kind" not in names:
        return 0
    return 3 if item.get_closest_marker("beside") else 2 if "ending_kind" in names else 1


@pytest.fixture(scope="session")
def cluster(testrun_uid: str) -> Iterator[KindCluster]:
    """The cluster, whatever is installed; nothing is when a run begins."""
    kind = KindCluster.attached()
    with first_of_run(BEGUN, testrun_uid) as first:
        if first:
            kind.clear()
            _without_gpus(kind)
    yield kind
    kind.kube.close()


@pytest.fixture
def bare_kind(cluster: KindCluster) -> KindCluster:
    """The cluster without hetserve."""
    cluster.clear()
    return cluster


@pytest.fixture
def kind(cluster: KindCluster) -> KindCluster:
    """The cluster with hetserve, installed by helm; the operator does not run where its image is not there."""
    with turn(BEGUN):
        if not cluster.installed():
            cluster.install() if cluster.holds("operator") else cluster.install_placement()
    return cluster


@pytest.fixture
def ending_kind(kind: KindCluster) -> KindCluster:
    """The same, for a scenario that takes hetserve away, and installs it again."""
    return kind


@pytest.fixture
def tenant(cluster: KindCluster) -> Iterator[str]:
    """A namespace of its own. After the test the API has no pods of it; nobody waits for their containers to end."""
    yield from _namespace(cluster)


@pytest.fixture
def other_tenant(cluster: KindCluster) -> Iterator[str]:
    """Another one."""
    yield from _namespace(cluster)


def _namespace(cluster: KindCluster) -> Iterator[str]:
    name = f"tenant-{_RUN}-{next(_numbers)}"
    cluster.kube.apply_all([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    yield name
    cluster.kube.delete("namespaces", name)
    cluster.kube.delete_all("pods", name, grace=0)
    wait_until(lambda: not cluster.pods(name), limits.CROWD, f"the pods of {name} to be gone")


@pytest.fixture
def gpu_workers(cluster: KindCluster) -> Iterator[list[str]]:
    """The real nodes, with labels of two GPUs each, which others may use too."""
    workers = cluster.workers()
    with turn(REAL_GPUS, alone=False):
        for worker in workers:
            cluster.label(worker, GPUS.labels())
        yield workers


@pytest.fixture
def no_gpu_workers(cluster: KindCluster) -> Iterator[None]:
    """No real node has labels of GPUs."""
    with turn(REAL_GPUS):
        _without_gpus(cluster)
        yield


def _without_gpus(cluster: KindCluster) -> None:
    for worker in cluster.workers():
        cluster.label(worker, dict.fromkeys((GFD_PRODUCT, GFD_MEMORY, GFD_COUNT)))
