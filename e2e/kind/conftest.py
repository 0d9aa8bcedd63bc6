"""What the scenarios on kind share: one cluster, hetserve installed once, a namespace each."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from harness.kind import KindCluster
from harness.waiting import wait_until

_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent.name == "kind":
            item.add_marker(pytest.mark.kind)
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def bare_kind() -> Iterator[KindCluster]:
    """The cluster without hetserve."""
    kind = KindCluster.attached()
    kind.uninstall()
    yield kind
    kind.kube.close()


@pytest.fixture(scope="session")
def kind(bare_kind: KindCluster) -> Iterator[KindCluster]:
    """The cluster with hetserve, installed by helm with the images."""
    bare_kind.install()
    yield bare_kind
    bare_kind.uninstall()


@pytest.fixture
def tenant(kind: KindCluster) -> Iterator[str]:
    """A namespace of its own, gone after the test."""
    name = f"tenant-{next(_numbers)}"
    kind.kube.apply_all([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    yield name
    kind.kube.delete("namespaces", name)
    wait_until(lambda: kind.kube.find("namespaces", name) is None, 120, f"namespace {name} to be gone")
