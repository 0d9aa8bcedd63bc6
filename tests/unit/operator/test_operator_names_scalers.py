"""HorizontalPodAutoscalers of somebody else are named in ScalingActive; the right to read them is not needed to run."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from hetserve_operator.memory import Interests
from hetserve_operator.watch.cache import SCALERS_PATH, Cache
from hetserve_operator.watch.handlers import EventHandlers, watched
from hetserve_shell.kube.client import Answer
from operator_scene import CPU_DEPLOYMENT, GPU_DEPLOYMENT, SERVICE, converged
from testing.builders import service
from testing.kit.apiserver import FakeApiServer
from testing.operator import SimulatedOperator, path_of
from testing.scenes import autoscaler

Json = dict[str, Any]


class Refusing(FakeApiServer):
    """Refuses to list HorizontalPodAutoscalers, with this status; 0: lists them."""

    status = 403

    def answer(
        self, method: str, path: str, query: Mapping[str, str], body: Any = None, content_type: str = "application/json"
    ) -> Answer:
        if path == SCALERS_PATH and self.status:
            return Answer(self.status, b'{"message": "horizontalpodautoscalers is forbidden"}')
        return super().answer(method, path, query, body, content_type)


def scaling(sim: SimulatedOperator) -> Json | None:
    conditions = sim.service()["status"]["conditions"]
    return next((one for one in conditions if one["type"] == "ScalingActive"), None)


async def test_a_scaler_of_a_services_deployment_is_named_until_it_goes() -> None:
    sim = await converged()
    assert scaling(sim) is None
    sim.add(autoscaler("hpa", CPU_DEPLOYMENT))
    await sim.converge()
    told = scaling(sim)
    assert told is not None
    assert (told["status"], told["reason"]) == ("False", "ForeignScaler")
    assert told["message"].startswith(
        f"HorizontalPodAutoscaler hpa changes the replicas of Deployment {CPU_DEPLOYMENT}"
    )
    events = [raw for _, raw in sim.api.items("events") if raw["reason"] == "ForeignScaler"]
    assert [(raw["type"], raw["note"]) for raw in events] == [("Warning", told["message"])]
    sim.api.remove(autoscaler("hpa", CPU_DEPLOYMENT))
    await sim.converge()
    assert scaling(sim) is None


async def test_another_scaler_changes_the_words_though_the_reason_stays() -> None:
    sim = await converged()
    sim.add(autoscaler("one", CPU_DEPLOYMENT))
    await sim.converge()
    sim.add(autoscaler("two", GPU_DEPLOYMENT))
    await sim.converge()
    told = scaling(sim)
    assert told is not None
    assert "one changes" in told["message"]
    assert "two changes" in told["message"]


@pytest.mark.parametrize("raw", [autoscaler("hpa", "others"), autoscaler("hpa", CPU_DEPLOYMENT, namespace="team")])
async def test_a_scaler_of_something_else_is_not_named(raw: Json) -> None:
    sim = await converged()
    sim.add(raw)
    await sim.converge()
    assert scaling(sim) is None


async def test_a_deployment_with_our_label_that_is_not_ours_may_have_a_scaler() -> None:
    sim = await converged()
    found = sim.api.objects[f"/apis/apps/v1/namespaces/default/deployments/{CPU_DEPLOYMENT}"]
    labels = found["metadata"]["labels"]
    stranger = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "stranger", "namespace": "default", "labels": labels},
        "spec": {**found["spec"], "replicas": 0},
    }
    sim.add(stranger, autoscaler("hpa", "stranger"))
    await sim.converge()
    assert scaling(sim) is None


async def test_where_only_advice_is_given_another_may_scale() -> None:
    sim = await converged()
    sim.add(autoscaler("hpa", CPU_DEPLOYMENT))
    sim.edit(SERVICE, lambda raw: raw["spec"].update(mode="Advise"))
    await sim.converge()
    told = scaling(sim)
    assert told is not None
    assert told["reason"] == "Advising"


async def test_a_pause_does_not_hide_a_scaler() -> None:
    sim = await converged()
    sim.add(autoscaler("hpa", CPU_DEPLOYMENT))
    sim.edit(SERVICE, lambda raw: raw["spec"].update(pause="All"))
    await sim.converge()
    told = scaling(sim)
    assert told is not None
    assert told["reason"] == "ForeignScaler"


@pytest.mark.parametrize("status", [403, 404])
async def test_without_the_right_to_read_scalers_all_else_goes_on(
    status: int, caplog: pytest.LogCaptureFixture
) -> None:
    sim = await converged()
    served = sim.api.objects
    sim.api = Refusing(objects=served, statuses=sim.api.statuses, revision=sim.api.revision)
    sim.api.status = status
    sim.restart()
    sim.add(autoscaler("hpa", CPU_DEPLOYMENT))
    with caplog.at_level(logging.WARNING):
        await sim.observer.relist()
        await sim.observer.recount()
        await sim.observer.recount()
    assert sim.observer.unread == {SCALERS_PATH}
    assert len([one for one in caplog.records if "HorizontalPodAutoscaler" in one.getMessage()]) == 1
    assert len(sim.cache.nodes) > 0
    assert path_of(service("rm2")) in sim.api.objects
    assert list(sim.cache.services), "the lists after it are read too"
    assert await sim.look_all()


async def test_a_right_that_is_granted_later_counts_without_another_start() -> None:
    sim = await converged()
    sim.api = Refusing(objects=sim.api.objects, statuses=sim.api.statuses, revision=sim.api.revision)
    sim.restart()

    def scalers() -> list[str]:
        return [one.name for one in sim.cache.scalers]

    first, second = (autoscaler(name, CPU_DEPLOYMENT) for name in ("first", "second"))
    sim.add(first)
    await sim.observer.relist()
    await sim.observer.recount()
    assert scalers() == []

    sim.api.status = 0
    await sim.observer.recount()
    assert scalers() == ["first"]
    sim.api.remove(first)
    sim.add(second)
    await sim.observer.recount()
    assert scalers() == ["second"], "there are as many as before, and nobody watches them"
    sim.api.status = 403
    await sim.observer.recount()
    assert scalers() == ["second"]


async def test_a_server_that_fails_is_no_lack_of_rights() -> None:
    sim = await converged()
    sim.api = Refusing(objects=sim.api.objects, statuses=sim.api.statuses, revision=sim.api.revision)
    sim.api.status = 500
    sim.restart()
    assert not await sim.look_all()
    assert sim.observer.unread == set()


def test_scalers_that_cannot_be_read_are_not_watched() -> None:
    feed = EventHandlers(Cache(), Interests(), lambda _: None, lambda _: None, lambda _: None)
    with_them = {one.path for one in watched(feed)}
    without = {one.path for one in watched(feed, without={SCALERS_PATH})}
    assert with_them - without == {SCALERS_PATH}
