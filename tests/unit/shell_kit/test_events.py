"""Events about objects of the cluster: posted once, within the API server's limits."""

from __future__ import annotations

from collections import deque

import pytest

from hetserve_shell.kube.client import ApiStatusError
from hetserve_shell.kube.connection import ApiUnreachableError
from hetserve_shell.kube.events import NOTE_LENGTH, Event, EventRecorder, events_path
from testing.kit.apiserver import FakeApiServer, Fault

POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "team", "name": "p", "uid": "u"}


def event(note: str = "it waits", *, warning: bool = True) -> Event:
    return Event("p.waits.u", POD, "Queue", "Waits", note, warning)


def recorder(api: FakeApiServer) -> EventRecorder:
    return EventRecorder(api, "a-controller", "host-1" * 100, lambda: 1_767_225_600.25)


async def test_an_event_says_who_reports_what_about_whom() -> None:
    api = FakeApiServer()
    await recorder(api).post(event())
    ((path, posted),) = api.objects.items()
    assert path == "/apis/events.k8s.io/v1/namespaces/team/events/p.waits.u"
    assert posted["regarding"] == POD
    assert (posted["type"], posted["action"], posted["reason"]) == ("Warning", "Queue", "Waits")
    assert (posted["note"], posted["eventTime"]) == ("it waits", "2026-01-01T00:00:00.250000Z")
    assert (posted["reportingController"], len(posted["reportingInstance"])) == ("a-controller", 128)


async def test_one_that_is_no_warning_is_normal() -> None:
    api = FakeApiServer()
    await recorder(api).post(event(warning=False))
    assert [posted["type"] for posted in api.objects.values()] == ["Normal"]


async def test_the_same_event_is_posted_once() -> None:
    api = FakeApiServer()
    await recorder(api).post(event("first"))
    await recorder(api).post(event("second"))
    assert [posted["note"] for posted in api.objects.values()] == ["first"]


@pytest.mark.parametrize("note", ["x" * 5000, "ä" * 5000, "x" + "ä" * 5000])
async def test_a_note_is_cut_to_the_bytes_that_the_api_server_accepts(note: str) -> None:
    api = FakeApiServer()
    await recorder(api).post(event(note))
    (posted,) = api.objects.values()
    assert NOTE_LENGTH - 1 <= len(posted["note"].encode()) <= NOTE_LENGTH
    assert note.startswith(posted["note"])


@pytest.mark.parametrize(("fault", "error"), [(403, ApiStatusError), ("lost before", ApiUnreachableError)])
async def test_an_event_that_is_not_taken_is_an_error_of_the_caller(fault: Fault, error: type[Exception]) -> None:
    api = FakeApiServer(faults={"POST": deque([fault])})
    with pytest.raises(error):
        await recorder(api).post(event())


def test_a_namespace_is_quoted_whole() -> None:
    assert events_path("a/../b") == "/apis/events.k8s.io/v1/namespaces/a%2F..%2Fb/events"
