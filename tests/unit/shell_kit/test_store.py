"""Facts of one kind: the newest version counts, whatever order lists and events come in."""

from __future__ import annotations

import logging
from collections import deque
from typing import Any

import orjson
import pytest

from hetserve_shell.kube.client import Answer, ApiStatusError
from hetserve_shell.kube.pages import Pages, glance
from hetserve_shell.kube.store import Store
from testing.kit.apiserver import FakeApiServer

PATH = "/apis/example.com/v1/numbers"


def number(name: str, value: int | str, version: int) -> dict[str, Any]:
    return {
        "kind": "Number",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        "value": value,
    }


def value_of(raw: dict[str, Any]) -> int | None:
    found = int(raw["value"])
    return found if found >= 0 else None


class Numbers(Store[int]):
    """A store that notes what it parses and what it tells."""

    def __init__(self) -> None:
        self.parsed: list[str] = []
        self.told: list[tuple[int | None, int | None]] = []

        def reduce(raw: dict[str, Any]) -> int | None:
            self.parsed.append(raw["metadata"]["name"])
            return value_of(raw)

        super().__init__(reduce, lambda found: "odd" if found % 2 else None, {"last digit": lambda found: found % 10})
        self.subscribe(lambda before, after: self.told.append((before, after)))


@pytest.fixture
def store() -> Numbers:
    return Numbers()


async def test_an_object_is_parsed_once_per_version(store: Numbers) -> None:
    api = FakeApiServer()
    raw = number("a", 2, 1)
    api.put(f"{PATH}/a", raw)
    await store.fill(Pages(api, PATH))
    await store.fill(Pages(api, PATH))
    store.put(api.objects[f"{PATH}/a"])
    assert store.parsed == ["a"]


def test_an_old_event_does_not_undo_a_newer_view(store: Numbers) -> None:
    store.put(number("a", 2, 20))
    store.put(number("a", 4, 10))
    assert list(store) == [2]
    assert store.told == [(None, 2)]


def test_versions_are_compared_as_numbers(store: Numbers) -> None:
    store.put(number("a", 2, 9))
    store.put(number("a", 4, 10))
    assert list(store) == [4]


def test_a_new_version_with_an_equal_fact_is_no_change(store: Numbers) -> None:
    store.put(number("a", 2, 1))
    store.put(number("a", 2, 2))
    store.put(number("a", 4, 3))
    store.drop(number("a", 4, 4))
    store.drop(number("a", 4, 4))
    assert store.told == [(None, 2), (2, 4), (4, None)]


def test_an_object_without_a_fact_counts_as_an_object(store: Numbers) -> None:
    store.put(number("a", -1, 1))
    store.put(number("b", "not a number", 1))
    assert (list(store), len(store), store.told) == ([], 2, [])
    store.put(number("a", 2, 2))
    store.put(number("a", -1, 3))
    assert store.told == [(None, 2), (2, None)]
    assert len(store) == 2


def test_an_index_follows_every_change(store: Numbers) -> None:
    for name, value in (("a", 12), ("b", 22), ("c", 30)):
        store.put(number(name, value, 1))
    assert store.by("last digit", 2) == (12, 22)
    store.put(number("a", 30, 2))
    assert (store.by("last digit", 2), sorted(store.by("last digit", 0))) == ((22,), [30, 30])
    store.put(number("b", 42, 2))
    assert store.by("last digit", 2) == (42,), "a fact under the same value is replaced"
    store.drop(number("b", 42, 3))
    store.put(number("c", -1, 3))
    assert store.by("last digit", 2) == ()
    assert store.by("last digit", 0) == (30,)


def test_an_object_that_stays_unreadable_is_logged_once_and_again_when_it_breaks_anew(
    store: Numbers, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for version in range(1, 4):  # as a node's heartbeats
            store.put(number("a", "none", version))
        assert len(caplog.messages) == 1
        store.put(number("a", 2, 4))
        store.put(number("a", "none", 5))
        assert len(caplog.messages) == 2
        store.drop(number("a", "none", 6))
        store.put(number("a", "none", 7))
        assert len(caplog.messages) == 3


def test_a_complaint_is_logged_once(store: Numbers, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        store.put(number("a", 3, 1))
        store.put(number("a", 5, 2))
        store.put(number("a", "x", 3))
    assert caplog.messages[0] == "Number a cannot be read: odd"
    assert [message.split(":")[1] for message in caplog.messages] == [" odd", " ValueError"]


async def test_a_full_list_removes_what_the_watch_has_lost(store: Numbers) -> None:
    api = FakeApiServer(revision=50)
    store.put(number("gone", 2, 10))
    store.put(number("newer", 4, 90))
    for name in ("a", "b", "c"):
        api.put(f"{PATH}/{name}", {"metadata": {"name": name}, "value": 6})
    await store.fill(Pages(api, PATH, limit=1))
    assert sorted(store) == [4, 6, 6, 6]
    assert (2, None) in store.told


class Meanwhile(FakeApiServer):
    """Something happens right after a page of a list has been read."""

    act: Any = None

    async def request(self, method: str, path: str, **rest: Any) -> Any:
        answer = await super().request(method, path, **rest)
        if self.act is not None:
            self.act()
        return answer


async def test_a_deletion_during_a_list_is_not_undone_by_it(store: Numbers) -> None:
    api = Meanwhile()
    found = api.put(f"{PATH}/a", number("a", 2, 1))
    store.put(found)
    api.act = lambda: store.drop(number("a", 2, 1000))
    await store.fill(Pages(api, PATH))
    assert (list(store), len(store)) == ([], 0)
    api.act = None
    store.put(found)
    assert list(store) == [2], "nothing is left of a deletion once the list is over"


async def test_an_event_during_a_list_counts_if_it_is_newer(store: Numbers) -> None:
    api = Meanwhile()
    api.put(f"{PATH}/a", number("a", 2, 1))

    def both() -> None:
        store.put(number("a", 4, 1000))
        store.put(number("b", 6, 1000))

    api.act = both
    await store.fill(Pages(api, PATH))
    assert sorted(store) == [4, 6]


async def test_a_list_that_fails_removes_nothing(store: Numbers) -> None:
    api = FakeApiServer()
    for name in "abc":
        api.put(f"{PATH}/{name}", {"metadata": {"name": name}, "value": 2})
    await store.fill(Pages(api, PATH))
    api.faults["GET"] = deque([500])
    with pytest.raises(ApiStatusError, match="500"):
        await store.fill(Pages(api, PATH))
    assert len(store) == 3


@pytest.mark.parametrize("objects", [0, 1, 2, 7])
async def test_objects_are_counted_by_reading_one(objects: int) -> None:
    api = FakeApiServer()
    for name in range(objects):
        api.put(f"{PATH}/{name}", {"metadata": {"name": str(name)}})
    assert (await glance(api, PATH)).objects == objects
    assert len(api.calls) == 1


async def test_a_server_that_does_not_say_how_many_remain_gives_no_count() -> None:
    class Silent(FakeApiServer):
        async def request(self, *asked: Any, **rest: Any) -> Answer:
            content = (await super().request(*asked, **rest)).json()
            content["metadata"].pop("remainingItemCount", None)
            return Answer(200, orjson.dumps(content))

    api = Silent()
    for name in "ab":
        api.put(f"{PATH}/{name}", {"metadata": {"name": name}})
    assert (await glance(api, PATH)).objects is None


def test_a_reflectors_list_replaces_all_that_is_known(store: Numbers) -> None:
    for name, value in (("a", 2), ("b", 4)):
        store.apply("ADDED", number(name, value, 1))
    store.replace([number("b", 6, 3), number("c", 8, 2)])
    assert sorted(store) == [6, 8]
    store.apply("DELETED", number("c", 8, 4))
    assert list(store) == [6]
    assert store.told == [(None, 2), (None, 4), (4, 6), (None, 8), (2, None), (8, None)]


def test_a_list_after_etcd_was_restored_brings_older_versions_back(store: Numbers) -> None:
    for name, value, version in (("a", 2, 5), ("b", 4, 6), ("c", 6, 7)):
        store.apply("ADDED", number(name, value, version))
    store.replace([number("a", 8, 3), number("b", 4, 6)])
    assert sorted(store) == [4, 8]
    store.apply("MODIFIED", number("a", 10, 4))
    assert sorted(store) == [4, 10]
