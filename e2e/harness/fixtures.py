"""pytest fixtures on a real control plane; the tests of a worker share clusters."""

from __future__ import annotations

import asyncio
import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from harness import limits, tools
from harness.cluster import Cluster
from harness.components import ROOT
from harness.nodes import BOTH
from harness.pins import EVERY_MODULE
from harness.processes import ProcessRecord
from harness.prometheus import Prometheus
from harness.reaper import dismiss, watch
from harness.state import sweep
from harness.twin import Twin
from harness.view import ClusterViews
from harness.waiting import Unmet, wait_until
from hetserve_operator.plans.pool import PlanningProcess

STATE_ROOT: Final = ROOT / "e2e" / ".state"
CLUSTER_FIXTURES: Final = ("cluster", "bare_cluster", "own_cluster")
MAKERS_OF_PODS: Final = ("inferenceservices", "deployments", "replicasets", "statefulsets", "jobs", "pods")
_numbers = itertools.count(1)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks tests that use a cluster. Raises UsageError for one that no target of make would run."""
    for item in items:
        if item.get_closest_marker("cluster") is None:
            if "toolset" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.cluster)
            elif item.nodeid.startswith(("e2e/test_", "tests/integration/")):
                raise pytest.UsageError(f"{item.nodeid} needs no control plane: it belongs to tests/unit")


@pytest.fixture(scope="session")
def toolset() -> tools.Toolset:
    """Not built here: a build exceeds a test's time limit."""
    found = tools.find(tuple(EVERY_MODULE.values()))
    if found is None:
        pytest.fail("the control plane's binaries are not built yet: run `make tools` first", pytrace=False)
    return found


@pytest.fixture(scope="session")
def state_root() -> Path:
    """Folder of the clusters' states, cleaned of crashed runs."""
    STATE_ROOT.mkdir(parents=True, exist_ok=True)
    sweep(path for path in STATE_ROOT.iterdir() if path.is_dir())
    return STATE_ROOT


@pytest.fixture(scope="session")
def compiled_planners() -> None:
    """A first run compiles them for up to a minute, as images do ahead: a service waits for no answer meanwhile."""

    async def once() -> None:
        await (await PlanningProcess.start()).end()

    asyncio.run(once())


def _new_cluster(name: str, root: Path, toolset: tools.Toolset) -> Iterator[Cluster]:
    path = root / f"{name}-{os.getpid()}-{next(_numbers)}"
    reaper = watch(path)
    try:
        cluster = Cluster.start(path, owner=ProcessRecord.of("pytest", os.getpid()), toolset=toolset)
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        dismiss(reaper)


@pytest.fixture(scope="session")
def bare_cluster(state_root: Path, toolset: tools.Toolset) -> Iterator[Cluster]:
    """Control plane, nodes of both testbeds and CRDs."""
    for cluster in _new_cluster("bare", state_root, toolset):
        cluster.add_nodes(*BOTH)
        cluster.install_crds()
        yield cluster


@pytest.fixture(scope="session")
def cluster(state_root: Path, toolset: tools.Toolset, compiled_planners: None) -> Iterator[Cluster]:
    """Control plane, nodes of both testbeds, chart and all components.

    Shared: leave components and nodes unchanged, and delete pods with GPUs.
    """
    for cluster in _new_cluster("full", state_root, toolset):
        cluster.add_nodes(*BOTH)
        cluster.install_hetserve()
        yield cluster


@pytest.fixture
def own_cluster(state_root: Path, toolset: tools.Toolset, compiled_planners: None) -> Iterator[Cluster]:
    """A control plane for one test, without nodes and hetserve."""
    yield from _new_cluster("own", state_root, toolset)


@pytest.fixture
def components_running(cluster: Cluster) -> Iterator[None]:
    """For tests that stop components; restarts them."""
    yield
    for component in cluster.components():
        cluster.start_component(component.name)


@pytest.fixture
def prometheus(request: pytest.FixtureRequest) -> Iterator[Prometheus]:
    """Prometheus without data beside the test's cluster; stopped afterwards."""
    running = Prometheus(_cluster_of(request))
    running.start(empty=True)
    yield running
    if "own_cluster" not in request.fixturenames:  # removed as a whole
        running.stop()


@pytest.fixture
def twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """The load twin beside the test's cluster; stopped afterwards."""
    made = Twin(_cluster_of(request))
    yield made
    made.stop()


@pytest.fixture
def namespace(request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace for one test; deleted afterwards."""
    views = _cluster_of(request)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower()).strip("-")
    name = f"{words[:40].strip('-')}-{worker}-{next(_numbers)}"
    views.kube.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    wait_until(
        lambda: views.kube.find("serviceaccounts", "default", name) is not None,
        limits.REACTION,
        f"the default service account of namespace {name}",
    )
    yield name
    if "own_cluster" not in request.fixturenames:  # removed as a whole
        _empty(views, name)


def _cluster_of(request: pytest.FixtureRequest) -> Cluster:
    for name in CLUSTER_FIXTURES:
        if name in request.fixturenames:
            found: Cluster = request.getfixturevalue(name)
            return found
    raise LookupError(f"this fixture needs one of {', '.join(CLUSTER_FIXTURES)} beside it")


def _empty(views: ClusterViews, namespace: str) -> None:
    """Deletes owners of pods, waits for the pods, deletes the namespace: its controller alone would take the grace
    period.
    """
    kube = views.kube
    for kind in MAKERS_OF_PODS:
        if kube.serves(kind):
            kube.delete_all(kind, namespace)

    def gone() -> bool | Unmet:
        left = [pod["metadata"]["name"] for pod in views.pods(namespace)]
        return not left or Unmet(left)

    wait_until(gone, limits.REACTION, f"the pods of namespace {namespace} to be gone")
    kube.delete("namespaces", namespace)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Attaches the end of the components' logs to a failed test."""
    report = yield
    if report.failed:
        for name in CLUSTER_FIXTURES:
            used = getattr(item, "funcargs", {}).get(name)
            if isinstance(used, Cluster):
                logs = used.component_logs().items()
                report.sections.extend((f"end of {title}.log", text) for title, text in logs if text)
    return report
