"""What the scenarios on kind share: one cluster, hetserve installed as a scenario needs it, a namespace each."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Generator, Iterator
from typing import Final

import pytest

from harness.kind import KindCluster
from harness.nodes import Gpus
from harness.waiting import wait_until
from hetserve.api.names import GFD_COUNT, GFD_MEMORY, GFD_PRODUCT

_RUN: Final = secrets.token_hex(2)
"""A namespace of an earlier run may be going still."""
_numbers = itertools.count(1)
GPUS: Final = Gpus("Labelled-T4", 15360, 2)
"""What a real node's labels say; the machine has none."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    for item in items:
        if item.path.parent.name == "kind":
            item.add_marker(pytest.mark.kind)
            item.add_marker(pytest.mark.timeout(600))
    items.sort(key=_turn)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With a scenario that failed goes what was there then: its fixtures take it away."""
    report = yield
    if report.failed and call.when == "call" and item.get_closest_marker("kind"):
        kind = KindCluster.attached()
        report.sections.append(("hetserve in the cluster", kind.shown()))
        kind.kube.close()
    return report


def _turn(item: pytest.Function) -> int:
    """Who installs for itself comes first; the others share one installation; last, who takes it away."""
    names = item.fixturenames if item.path.parent.name == "kind" else ()
    return ("kind" in names) + ("ending_kind" in names)


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest) -> Iterator[KindCluster]:
    """The cluster, whatever is installed; nothing is at the end, unless a scenario failed."""
    kind = KindCluster.attached()
    kind.clear()
    yield kind
    if not request.session.testsfailed:
        kind.clear()
    kind.kube.close()


@pytest.fixture
def bare_kind(cluster: KindCluster) -> KindCluster:
    """The cluster without hetserve."""
    cluster.clear()
    return cluster


@pytest.fixture
def kind(cluster: KindCluster) -> KindCluster:
    """The cluster with hetserve, installed by helm; the operator does not run where its image is not there."""
    if not cluster.installed():
        cluster.install() if cluster.holds("operator") else cluster.install_placement()
    return cluster


@pytest.fixture
def ending_kind(kind: KindCluster) -> KindCluster:
    """The same, for a scenario that takes hetserve away."""
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
    wait_until(lambda: not cluster.pods(name), 120, f"the pods of {name} to be gone")


@pytest.fixture
def gpu_workers(cluster: KindCluster) -> Iterator[list[str]]:
    """The real nodes, with labels of two GPUs each."""
    workers = cluster.workers()
    for worker in workers:
        cluster.label(worker, GPUS.labels())
    yield workers
    for worker in workers:
        cluster.label(worker, dict.fromkeys((GFD_PRODUCT, GFD_MEMORY, GFD_COUNT)))
