"""Failed waits name their condition; values and resources merge correctly."""

from __future__ import annotations

import time

import httpx
import pytest

from harness import limits
from harness.components import merged
from harness.kube import ApiError, ApiResource
from harness.waiting import Unmet, WaitTimeoutError, wait_until


def test_a_wait_returns_what_the_predicate_answers() -> None:
    answers = iter([None, False, Unmet("no"), "yes"])
    assert wait_until(lambda: next(answers), limits.ANSWER, "an answer") == "yes"


def test_a_wait_that_times_out_names_what_and_what_was_seen_last() -> None:
    with pytest.raises(WaitTimeoutError, match=r"waited 0 s for 3 pods to run; last seen: .*\n.*\"Pending\""):
        wait_until(lambda: Unmet(["Pending"]), 0, "3 pods to run")


def test_a_wait_goes_on_where_the_machine_has_become_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    factors = iter([5.0, 5.0, 5.0])
    monkeypatch.setattr(limits, "slower_by_now", lambda: next(factors, 1.0))
    short, asked = 0.1, []

    def late() -> bool:
        asked.append(time.monotonic())
        return asked[-1] - asked[0] > 3 * short

    assert wait_until(late, short, "what comes late")
    with pytest.raises(WaitTimeoutError):
        wait_until(lambda: False, short, "what never comes")


@pytest.mark.parametrize("error", [ApiError(404, "NotFound", "no such pod"), httpx.ConnectError("refused")])
def test_an_apiserver_that_does_not_know_or_answer_counts_as_not_yet(error: Exception) -> None:
    def raises() -> bool:
        raise error

    with pytest.raises(WaitTimeoutError, match=r"last seen: .*(no such pod|refused)"):
        wait_until(raises, 0, "a pod")


def test_any_other_error_ends_the_wait_at_once() -> None:
    with pytest.raises(ZeroDivisionError):
        wait_until(lambda: 1 // 0, limits.ANSWER, "nothing")


def test_merged_values_keep_what_is_not_overridden() -> None:
    base = {"extender": {"port": 1, "queue": {"beta": 8}}, "components": {"enabled": False}}
    assert merged(base, {"extender": {"queue": {"beta": 2}}, "crds": {"install": False}}) == {
        "extender": {"port": 1, "queue": {"beta": 2}},
        "components": {"enabled": False},
        "crds": {"install": False},
    }
    assert base["extender"] == {"port": 1, "queue": {"beta": 8}}


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "path"),
    [
        (ApiResource("v1", "pods", "Pod", True), "a", "p", "/api/v1/namespaces/a/pods/p"),
        (ApiResource("v1", "pods", "Pod", True), None, None, "/api/v1/pods"),
        (ApiResource("v1", "nodes", "Node", False), None, "n", "/api/v1/nodes/n"),
        (
            ApiResource("apps/v1", "deployments", "Deployment", True),
            "a",
            None,
            "/apis/apps/v1/namespaces/a/deployments",
        ),
    ],
)
def test_paths_follow_the_api_conventions(
    resource: ApiResource, namespace: str | None, name: str | None, path: str
) -> None:
    assert resource.path(namespace, name) == path


def test_one_namespaced_object_without_a_namespace_is_refused() -> None:
    with pytest.raises(ValueError, match="name the namespace of 'p'"):
        ApiResource("v1", "pods", "Pod", True).path(None, "p")
