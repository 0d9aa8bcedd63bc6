"""`hetserve wait` ends on what the conditions say of the present generation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.base.units import Seconds
from hetserve.cli.app import app
from hetserve.cli.cluster.client import ClusterClient, ClusterError
from hetserve.cli.health.standing import follow_object, standing
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
COLLECTION = "/apis/hetserve.io/v1alpha1/namespaces/team/inferenceservices"


def condition(kind: str, status: str = "True", *, about: int = 1) -> Json:
    words = {"reason": f"{kind}Reason", "message": f"{kind.lower()} words"}
    return {"type": kind, "status": status, "observedGeneration": about, **words}


def service(*conditions: Json, generation: int = 1, observed: int = 1) -> Json:
    return {
        "apiVersion": "hetserve.io/v1alpha1",
        "kind": "InferenceService",
        "metadata": {"name": "web", "namespace": "team", "generation": generation},
        "spec": {},
        "status": {"observedGeneration": observed, "conditions": list(conditions)},
    }


def run(folder: Path, *objects: Json, events: tuple[Json, ...] = (), arguments: tuple[str, ...] = ()) -> Result:
    with HttpFace.serving(*objects) as api:
        api.events[COLLECTION] = list(events)
        config = str(api.kubeconfig(folder))
        return CliRunner().invoke(app, ["wait", "web", "--kubeconfig", config, *arguments])


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        (service(condition("Ready"), condition("Stalled", "False")), "Ready"),
        (service(condition("Ready", "False"), condition("Stalled")), "Stalled"),
        (service(condition("Reconciling"), condition("Ready", "False")), "Reconciling"),
        (service(condition("Ready"), generation=2), "Unseen"),
        (service(condition("Ready"), generation=2, observed=2), "Unseen"),
        (service(observed=-1), "Unseen"),
        (service(), "Unseen"),
        ({"metadata": {"generation": 1}}, "Unseen"),
    ],
    ids=["ready", "stalled", "on its way", "edited", "an old condition", "never seen", "no condition", "no status"],
)
def test_a_condition_counts_where_it_is_about_the_present_generation(raw: Json, state: str) -> None:
    assert standing(raw).state == state


def test_a_service_that_is_ready_ends_the_wait_at_once(tmp_path: Path) -> None:
    done = run(tmp_path, service(condition("Ready")))
    assert (done.exit_code, done.stdout) == (0, "team/web is Ready (ReadyReason): ready words\n")


def test_a_stalled_service_exits_with_3_and_the_conditions_words(tmp_path: Path) -> None:
    done = run(tmp_path, service(condition("Stalled")))
    assert (done.exit_code, done.stdout) == (3, "team/web is Stalled (StalledReason): stalled words\n")


def test_what_happens_meanwhile_is_one_line_for_each_change(tmp_path: Path) -> None:
    waits = service(condition("Reconciling"))
    events = ({"type": "MODIFIED", "object": waits}, {"type": "MODIFIED", "object": service(condition("Ready"))})
    done = run(tmp_path, service(observed=-1), events=({"type": "MODIFIED", "object": waits}, *events))
    assert done.exit_code == 0, done.output
    assert done.stderr.splitlines() == [
        "note: team/web is Unseen: the operator has not seen this generation yet",
        "note: team/web is Reconciling (ReconcilingReason): reconciling words",
    ]


def test_a_service_that_does_not_settle_in_time_exits_with_4_and_what_it_waits_for(tmp_path: Path) -> None:
    done = run(tmp_path, service(condition("Reconciling")), arguments=("--timeout", "1us", "-o", "json"))
    said = json.loads(done.stdout)
    assert (done.exit_code, said["timedOut"], said["state"]) == (4, True, "Reconciling")
    assert (said["reason"], said["message"], said["generation"]) == ("ReconcilingReason", "reconciling words", 1)


def test_a_service_that_is_not_there_or_goes_exits_with_2(tmp_path: Path) -> None:
    absent = run(tmp_path)
    assert (absent.exit_code, "there is no InferenceService web in namespace team" in absent.stderr) == (2, True)
    waits = service(condition("Reconciling"))
    gone = run(tmp_path, waits, events=({"type": "DELETED", "object": waits},))
    assert (gone.exit_code, "was deleted meanwhile" in gone.stderr) == (2, True)


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, service(condition("Ready")), arguments=("--timeout", "soon"))
    assert (done.exit_code, "'soon' is not a duration" in done.stderr) == (2, True)


def test_one_name_is_asked_for_and_the_watch_ends_with_the_time(tmp_path: Path) -> None:
    with HttpFace.serving(service(condition("Reconciling"))) as api:
        cluster = ClusterClient.connect(str(api.kubeconfig(tmp_path)), None)
        now = iter((0.0, 0.0, 3.0, 3.0))
        assert len(list(follow_object(cluster, COLLECTION, "web", Seconds(2.5), clock=lambda: next(now)))) == 1
        queries = [asked["query"] for _, _, asked in api.requests]
    assert [query["fieldSelector"] for query in queries] == ["metadata.name=web"] * 2
    assert queries[1]["timeoutSeconds"] == "3"


def test_a_server_that_restarts_is_waited_for_but_a_refusal_ends_the_wait(tmp_path: Path) -> None:
    with HttpFace.serving(service(condition("Reconciling"))) as api:
        cluster = ClusterClient.connect(str(api.kubeconfig(tmp_path)), None)
        seen = follow_object(cluster, COLLECTION, "web", Seconds(60.0), pause=lambda _: setattr(api, "status", 200))
        next(seen)
        api.status = 503
        assert next(seen) is not None
        api.status = 403
        with pytest.raises(ClusterError, match="refused with 403"):
            next(seen)
