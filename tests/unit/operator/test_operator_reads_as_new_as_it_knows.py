"""Lists come from a cache of the API server that may be behind, and show what the operator wrote, read and heard of."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from hetserve_operator.revisions import DEPLOYMENTS, PODS, ListedRevisions, WatchedRevisions
from hetserve_operator.workqueue import Key
from hetserve_shell.kube.client import ApiStatusError
from operator_scene import GPU_DEPLOYMENT, PLANNED, converged, deployment_path
from testing.operator import SimulatedOperator

RM2 = Key("default", "rm2")


@contextmanager
def lists(sim: SimulatedOperator) -> Iterator[list[tuple[str, str | None]]]:
    """Kind and wanted revision of each list of the service's own objects during the block."""
    seen: list[tuple[str, str | None]] = []
    answers = sim.api.answer

    def answer(method: str, path: str, query: Mapping[str, str], *rest: Any) -> Any:
        if method == "GET" and "labelSelector" in query:
            seen.append((path.rpartition("/")[2], query.get("resourceVersion")))
        return answers(method, path, query, *rest)

    sim.api.answer = answer  # type: ignore[method-assign, assignment]
    try:
        yield seen
    finally:
        sim.api.answer = answers  # type: ignore[method-assign]


async def reconciled(sim: SimulatedOperator) -> None:
    """A look without a word from any watch, and without a cache that has caught up."""
    await sim.controller.reconcile(RM2)


async def test_the_first_look_wants_the_latest_and_later_ones_what_they_know() -> None:
    sim = await converged()
    sim.restart()
    await sim.observer.relist()
    with lists(sim) as seen:
        await reconciled(sim)
        assert {DEPLOYMENTS: None, PODS: None, "replicasets": "0"}.items() <= dict(seen[:3]).items()
        reached = str(sim.api.revision)
        del seen[:]
        await reconciled(sim)
    assert dict(seen) == {DEPLOYMENTS: reached, PODS: reached, "replicasets": "0"}


async def test_what_we_have_written_is_seen_though_the_cache_is_behind() -> None:
    sim = await converged()
    sim.edit(deployment_path(GPU_DEPLOYMENT), lambda raw: raw["spec"].update(replicas=1))
    sim.api.cache.catch_up()
    await reconciled(sim)
    assert sim.replicas() == PLANNED
    sim.api.writes.clear()
    await reconciled(sim)
    assert sim.api.writes == [], "what is done is done again"


async def test_who_is_woken_by_a_watch_sees_why() -> None:
    sim = await converged()
    path = deployment_path(GPU_DEPLOYMENT)
    found = sim.api.objects[path]
    body = {"metadata": {"uid": found["metadata"]["uid"]}, "spec": {"replicas": 9}}
    await sim.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    await reconciled(sim)
    assert sim.replicas()[GPU_DEPLOYMENT] == 9, "the cache is behind, and nobody has said so"
    sim.cache.heard.hear(DEPLOYMENTS, sim.api.objects[path])
    await reconciled(sim)
    assert sim.replicas() == PLANNED


async def test_an_api_server_with_a_backup_is_read_anew() -> None:
    sim = await converged()
    sim.cache.heard.hear(PODS, {"metadata": {"resourceVersion": "99999"}})
    sim.cache.heard.hear(DEPLOYMENTS, {"metadata": {"resourceVersion": "99999"}})
    with lists(sim) as seen:
        await reconciled(sim)
        assert [wanted for kind, wanted in seen if kind == PODS] == ["99999", None]
        del seen[:]
        await reconciled(sim)
    assert [wanted for kind, wanted in seen if kind == PODS] == [str(sim.api.revision)]


async def test_an_api_server_that_is_behind_lowers_for_nobody_what_must_be_seen() -> None:
    """One of several, which answers 504 to one service, must not hide an event from the next."""
    sim = await converged()
    path = deployment_path(GPU_DEPLOYMENT)
    body = {"metadata": {"uid": sim.api.objects[path]["metadata"]["uid"]}, "spec": {"replicas": 9}}
    await sim.api.request("PATCH", path, body=body, content_type="application/merge-patch+json")
    sim.cache.heard.hear(DEPLOYMENTS, sim.api.objects[path])
    told = sim.cache.heard.latest(DEPLOYMENTS)
    sim.api.faults["GET"] = deque([504] * 4)
    with pytest.raises(ApiStatusError):
        await reconciled(sim)
    sim.api.faults.clear()
    assert sim.cache.heard.latest(DEPLOYMENTS) == told


async def test_after_instances_were_taken_the_list_of_pods_must_be_the_latest() -> None:
    sim = await converged()
    sim.edit(deployment_path(GPU_DEPLOYMENT), lambda raw: raw["spec"].update(replicas=7))
    sim.api.cache.catch_up()
    with lists(sim) as seen:
        await reconciled(sim)
    assert sim.replicas() == PLANNED
    assert (PODS, None) in seen[3:]


@pytest.mark.parametrize("text", ["", "abc", None, "-1"])
def test_a_revision_that_is_no_number_says_nothing(text: object) -> None:
    seen, heard = ListedRevisions(), WatchedRevisions()
    seen.note(PODS, "7")
    seen.note(PODS, text)
    assert seen.reached(PODS) is None
    heard.hear(PODS, {"metadata": {"resourceVersion": text}})
    assert heard.latest(PODS) == 0


def test_what_was_heard_goes_back_only_where_the_latest_list_has_not_come_that_far() -> None:
    heard = WatchedRevisions()
    heard.reach(PODS, "120")
    heard.check(PODS, 110, "115")  # an event has come while the list was read
    assert heard.latest(PODS) == 120
    heard.check(PODS, 120, "100")
    assert heard.latest(PODS) == 100


def test_what_was_seen_never_goes_back() -> None:
    seen = ListedRevisions()
    seen.wrote(PODS, {"metadata": {"resourceVersion": "9"}})
    assert seen.reached(PODS) is None, "what the write did not show is not known"
    for revision in ("7", "12", "9"):
        seen.note(PODS, revision)
    assert seen.reached(PODS) == 12
