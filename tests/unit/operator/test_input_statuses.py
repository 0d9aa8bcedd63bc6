"""Types and profiles say who may use them and whether they can be used; at rest nothing is written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.api.base import ObjectMeta
from hetserve.api.instance_type import InstanceType, InstanceTypeStatus
from hetserve.api.kinds import INSTANCE_TYPE, MODEL_PROFILE
from hetserve.api.model_profile import ModelProfile, ModelProfileStatus
from hetserve.reconcile.cluster.observed import Broken, ServiceOutline
from hetserve.reconcile.status.inputs import InputStatus, input_statuses
from hetserve_operator.leadership import OperatorLeadership
from hetserve_operator.watch.cache import Cache
from hetserve_operator.work.input_statuses import GATHERED, GATHERED_AT_MOST, InputStatuses
from testing import builders
from testing.kit.apiserver import FakeApiServer, path_of
from virtual_time import virtually

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TYPES, MODELS = ("a", "b"), ("m", "n")


def type_of(name: str, **labels: str) -> InstanceType:
    return InstanceType.model_validate(builders.instance_type(name, {"metadata.labels": labels}))


def profile_of(name: str, model: str, on: str) -> ModelProfile:
    overrides = {"metadata.namespace": "ns", "spec.model": model, "spec.instanceType": on}
    return ModelProfile.model_validate(builders.model_profile(name, overrides))


def by_path(*what: Any) -> dict[str, InputStatus]:
    return {one.path: one for one in input_statuses(*what)}


outlines = st.builds(
    ServiceOutline,
    st.sampled_from(("ns", "other")),
    st.just("s"),
    st.sampled_from(MODELS),
    st.none() | st.frozensets(st.sampled_from((*TYPES, "absent")), min_size=1),
    st.none() | st.fixed_dictionaries({"pool": st.sampled_from(("x", "y"))}),
)
pairs = st.lists(st.tuples(st.sampled_from(MODELS), st.sampled_from((*TYPES, "absent"))), max_size=5)


@given(st.lists(outlines, max_size=8), pairs)
def test_whom_a_status_counts_is_whom_a_change_would_wake(services: list[ServiceOutline], on: Any) -> None:
    types = [type_of("a", pool="x"), type_of("b", pool="y")]
    profiles = [profile_of(f"p{number}", model, kind) for number, (model, kind) in enumerate(on)]
    found = by_path(services, types, profiles)
    for one in types:
        name = one.metadata.name
        users = [
            service
            for service in services
            if service.may_use(one.metadata, profiled=service.namespace == "ns" and (service.model, name) in on)
        ]
        assert found[INSTANCE_TYPE.path(name=name)].services == len(users)
    for number, (model, kind) in enumerate(on):
        said = found[MODEL_PROFILE.path("ns", f"p{number}")]
        assert said.ready == (kind in TYPES and on.count((model, kind)) == 1)


def test_rivals_are_named_and_neither_is_ready() -> None:
    profiles = [profile_of("one", "m", "a"), profile_of("two", "m", "a"), profile_of("lost", "m", "absent")]
    found = by_path([], [type_of("a")], profiles)
    one, lost = (found[MODEL_PROFILE.path("ns", name)] for name in ("one", "lost"))
    assert (one.ready, one.reason, one.extra) == (False, "ProfileConflict", {"conflicts": ["two"]})
    assert (lost.reason, lost.message) == ("InstanceTypeNotFound", "there is no InstanceType absent")


def test_what_breaks_a_rule_says_which() -> None:
    found = by_path([], [Broken("InstanceType", ObjectMeta(name="a", generation=4), "spec.price: is required")], [])
    one = found[INSTANCE_TYPE.path(name="a")]
    assert (one.ready, one.reason, one.message) == (False, "SpecInvalid", "spec.price: is required")
    assert one.document({}, NOW)["observedGeneration"] == 4


def test_the_documents_keep_to_the_schema_and_the_time_moves_with_the_status_alone() -> None:
    found = by_path([], [type_of("a")], [profile_of("one", "m", "a")])
    kind, profile = (found[path] for path in (INSTANCE_TYPE.path(name="a"), MODEL_PROFILE.path("ns", "one")))
    first = kind.document({}, NOW)
    InstanceTypeStatus.model_validate(first)
    ModelProfileStatus.model_validate(profile.document({}, NOW))
    later = datetime(2026, 1, 2, tzinfo=UTC)
    assert kind.document(first, later) == first
    spoilt = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "x"}]}
    assert kind.document(spoilt, later)["conditions"][0]["lastTransitionTime"] == "2026-01-02T00:00:00Z"


class Scene:
    """The writer over an API server in memory, whose changes it sees at once."""

    def __init__(self) -> None:
        self.api, self.cache, self.leadership = FakeApiServer(), Cache(), OperatorLeadership()
        self.busy = False
        self.statuses = InputStatuses(self.api, self.cache, self.leadership, lambda: NOW, is_busy=lambda: self.busy)
        self.put(builders.instance_type("a"))
        self.put(builders.model_profile("p", {"spec.instanceType": "a"}))

    def put(self, raw: Json) -> None:
        self.cache.inputs[raw["kind"]].put(self.api.put(path_of(raw), raw))

    def service(self, name: str) -> None:
        raw = builders.service(name, {"spec.instanceTypes": {"names": ["a"]}, "spec.model": {"name": "rm2"}})
        self.cache.services.put(self.api.put(path_of(raw), raw))

    @property
    def patches(self) -> list[str]:
        return [path for method, path in self.api.writes if method == "PATCH"]

    def stored(self, kind: str, name: str) -> Json:
        status: Json = next(raw for _, raw in self.api.items(kind) if raw["metadata"]["name"] == name)["status"]
        return status


def played(story: Callable[[Scene], Coroutine[Any, Any, None]]) -> None:
    async def play() -> None:
        scene = Scene()
        running = asyncio.create_task(scene.statuses.run())
        scene.statuses.begin_term()
        await asyncio.sleep(GATHERED + 1)
        await story(scene)
        running.cancel()

    virtually(play())


def test_at_rest_and_in_a_new_term_nothing_is_written_again() -> None:
    async def story(scene: Scene) -> None:
        assert len(scene.patches) == 2
        assert scene.stored("instancetypes", "a")["profiles"] == 1
        scene.statuses.begin_term()
        await asyncio.sleep(100)
        assert len(scene.patches) == 2

    played(story)


def test_a_burst_of_services_is_one_write_for_each_object_that_changes() -> None:
    async def story(scene: Scene) -> None:
        for number in range(200):
            scene.service(f"s{number}")
        await asyncio.sleep(GATHERED + 1)
        assert scene.patches[2:] == [f"{INSTANCE_TYPE.path(name='a')}/status", f"{_profile()}/status"]
        assert scene.stored("instancetypes", "a")["services"] == 200

    played(story)


def test_while_services_wait_for_their_first_plans_nothing_is_written_but_not_for_ever() -> None:
    async def story(scene: Scene) -> None:
        scene.busy = True
        scene.service("first")
        await asyncio.sleep(GATHERED_AT_MOST - GATHERED)
        assert scene.patches[2:] == []
        scene.busy = False
        await asyncio.sleep(GATHERED + 1)
        assert len(scene.patches) == 4
        scene.busy = True
        scene.service("second")
        await asyncio.sleep(GATHERED_AT_MOST + 1)
        assert len(scene.patches) == 6

    played(story)


def test_a_type_or_profile_that_changes_is_told_soon_whoever_waits() -> None:
    async def story(scene: Scene) -> None:
        scene.busy = True
        scene.service("first")
        scene.put(builders.model_profile("other", {"spec.instanceType": "absent"}))
        await asyncio.sleep(2 * GATHERED + 1)
        assert len(scene.patches) == 5

    played(story)


def test_an_object_made_anew_under_its_name_gets_its_status_again() -> None:
    async def story(scene: Scene) -> None:
        raw = next(raw for _, raw in scene.api.items("modelprofiles"))
        scene.api.remove(raw)
        scene.cache.inputs["ModelProfile"].drop(raw)
        scene.put(builders.model_profile("p", {"spec.instanceType": "a"}))
        await asyncio.sleep(GATHERED + 1)
        assert scene.patches[2:] == [f"{_profile()}/status"]

    played(story)


@pytest.mark.parametrize("fault", [500, "lost before", "lost after"])
def test_a_write_that_fails_is_made_again(fault: Any) -> None:
    async def story(scene: Scene) -> None:
        scene.api.faults["PATCH"] = deque([fault])
        scene.service("s")
        await asyncio.sleep(60)
        assert scene.stored("instancetypes", "a")["services"] == 1
        assert scene.stored("modelprofiles", "p")["services"] == 1

    played(story)


def test_who_does_not_lead_writes_nothing() -> None:
    async def story(scene: Scene) -> None:
        scene.leadership.end()
        scene.service("s")
        await asyncio.sleep(60)
        assert len(scene.patches) == 2

    played(story)


def _profile() -> str:
    return MODEL_PROFILE.path(builders.model_profile("p")["metadata"]["namespace"], "p")
