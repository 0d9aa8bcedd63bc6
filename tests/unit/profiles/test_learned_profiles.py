"""Profiles of the times that a router has seen: read of its leader, fitted, and given to whoever applies them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.api.model_profile import ModelProfile
from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve.cli.app import app
from hetserve.profiles import profile_from_spec
from installation_objects import a_router
from probe_ports import ProbePort, serving
from testing import builders
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
TABLE = {"table": [{"batch": 1, "mean": "10ms"}, {"batch": 100, "mean": "109ms"}, {"batch": 500, "mean": "509ms"}]}
"""9 ms and one for each item."""


def seen(*batches: int, latency: Json = TABLE, kind: str = "g4dn.xlarge", factor: float = 1.2, **more: Any) -> Json:
    """Times of 9 ms and one for each item, times the factor, as a router shows them."""
    overrides = {"spec.latency": latency, "spec.instanceType": kind, "spec.gpuMemory": "2Gi"}
    profile = builders.model_profile(overrides=overrides)
    times = {
        str(batch): [factor * (0.009 + batch / 1e3) * (1 + 0.01 * (k % 3 - 1)) for k in range(30)] for batch in batches
    }
    return {"profile": profile, "isShared": False, "times": times, **more}


def text_of(*types: Json, service: str = "rm2") -> str:
    return json.dumps({"namespace": "default", "service": service, "types": types}) + "\n"


def learned(text: str, *args: str) -> Result:
    with serving(ProbePort(set(), text)) as probe:
        url = f"http://127.0.0.1:{probe.port}"
        return CliRunner().invoke(app, ["profile", "learned", "rm2", "--url", url, *args])


def profile_of(done: Result) -> ModelProfile:
    assert done.exit_code == 0, done.stderr
    return ModelProfile.model_validate(yaml.safe_load(done.stdout))


def test_the_profile_in_force_gets_the_latency_that_was_seen_and_keeps_the_rest() -> None:
    done = learned(text_of(seen(1, 8, 100, 500)))
    made, before = profile_of(done), ModelProfile.model_validate(seen()["profile"])
    assert made.metadata.name == before.metadata.name
    assert made.spec.gpu_memory == "2Gi"
    latency = profile_from_spec(made.spec)
    assert latency.mean(300) == pytest.approx(1.2 * 0.309, rel=0.01)
    assert made.spec.source == "120 queries at 4 batches up to 500, as a router saw them"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("latency", "largest"),
    [
        pytest.param(TABLE, 500, id="a table"),
        pytest.param({"linear": {"intercept": "9ms", "slope": "1ms"}}, 1024, id="a line"),
    ],
)
def test_beyond_what_was_seen_the_profile_in_force_counts_times_the_ratio(latency: Json, largest: int) -> None:
    made = profile_of(learned(text_of(seen(1, 2, 8, latency=latency)), "--kind", "table"))
    assert [row.batch for row in made.spec.latencies[""].table or ()][-1] == largest
    assert profile_from_spec(made.spec).mean(largest) == pytest.approx(1.2 * (0.009 + largest / 1e3), rel=0.02)
    assert "beyond, 1.200 x the profile before" in str(made.spec.source)


def test_beyond_what_was_seen_the_ratio_is_that_of_the_largest_batches() -> None:
    small, large = seen(1, 2, 3, 4, factor=3.0), seen(8, 9, 10, factor=1.2)
    made = profile_of(learned(text_of({**small, "times": {**small["times"], **large["times"]}}), "--kind", "table"))
    assert profile_from_spec(made.spec).mean(500) == pytest.approx(1.2 * 0.509, rel=0.02)


def test_several_types_are_a_list_that_kubectl_takes_and_one_can_be_chosen() -> None:
    text = text_of(seen(1, 2, 3), seen(1, 2, 3, kind="c5.large"))
    whole = json.loads(learned(text, "-o", "json").stdout)
    assert (whole["kind"], [ModelProfile.model_validate(one).spec.instance_type for one in whole["items"]]) == (
        "List",
        ["g4dn.xlarge", "c5.large"],
    )
    assert profile_of(learned(text, "--instance-type", "c5.large")).spec.instance_type == "c5.large"


def test_a_table_for_the_eye_says_how_far_the_profile_is_off() -> None:
    shown = learned(text_of(seen(1, 50, 100)), "-o", "table").stdout
    assert "rm2 on g4dn.xlarge" in shown
    assert "1.200 x the profile in force; at the largest batches, and beyond, 1.200 x" in shown
    assert "90 at 3 batches" in shown
    assert "500" not in shown, "no query of this size was seen"


def test_a_profile_with_variants_is_left_out_as_only_one_of_them_was_served() -> None:
    of_one = seen(1, 2, 3, kind="c5.large")
    spec = of_one["profile"]["spec"]
    spec["variants"] = [{"name": "full", "latency": spec.pop("latency")}]
    done = learned(text_of(seen(1, 2, 3), of_one))
    assert profile_of(done).spec.instance_type == "g4dn.xlarge"
    assert "rm2 on c5.large: its profile has variants" in done.stderr


def test_types_of_which_too_little_was_seen_are_left_out_with_a_note() -> None:
    few, shared = seen(1, 2, kind="c5.large"), seen(1, 2, 3, kind="r5.large", isShared=True)
    done = learned(text_of(seen(1, 2, 3), few, shared))
    assert profile_of(done).spec.instance_type == "g4dn.xlarge"
    assert "rm2 on c5.large: queries of 2 sizes were answered, 3 are needed" in done.stderr
    assert "rm2 on r5.large: its instances share GPUs" in done.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(text_of(seen(1, 2)), "queries of 2 sizes were answered, 3 are needed", id="too few batches"),
        pytest.param(text_of(), "default/rm2: no query was answered on any type", id="nothing seen"),
        pytest.param(text_of(service="web"), "no router serves default/rm2; served are: default/web", id="a stranger"),
        pytest.param("", "served are: none", id="no service"),
        pytest.param("<html>", "is no probe port of a router", id="another port"),
        pytest.param(
            text_of(seen(700, 800, 900)), "queries of 0 sizes were answered", id="beyond what the profile serves"
        ),
    ],
)
def test_why_there_is_no_profile_is_said(text: str, words: str) -> None:
    done = learned(text)
    assert (done.exit_code, done.stdout) == (2, "")
    assert words in done.stderr


def test_a_port_where_nobody_listens_is_named() -> None:
    done = CliRunner().invoke(app, ["profile", "learned", "rm2", "--url", "http://127.0.0.1:1"])
    assert done.exit_code == 2
    assert "http://127.0.0.1:1/times" in done.stderr


def test_in_a_cluster_the_leaders_are_asked_by_their_label(tmp_path: Path) -> None:
    leads = {"hetserve.io/leads.hetserve-router-default": "true"}
    with (
        serving(ProbePort(text=text_of(seen(1, 2, 3)))) as probe,
        HttpFace.serving(a_router("one"), a_router("two", **leads)) as api,
    ):
        api.forwards[f"/api/v1/namespaces/{SYSTEM_NAMESPACE}/pods/two"] = probe.port
        done = CliRunner().invoke(
            app, ["profile", "learned", "rm2", "-n", "default", "--kubeconfig", str(api.kubeconfig(tmp_path))]
        )
    assert profile_of(done).spec.model == "rm2"
    assert probe.seen == [None, "Bearer secret"]
    asked = [path for how, path, _ in api.requests if how == "UPGRADE"]
    assert {path.partition("?")[2] for path in asked} == {"ports=9999"}


def test_where_no_router_leads_it_is_said(tmp_path: Path) -> None:
    with HttpFace.serving(a_router("one")) as api:
        done = CliRunner().invoke(app, ["profile", "learned", "rm2", "--kubeconfig", str(api.kubeconfig(tmp_path))])
    assert (done.exit_code, f"no router leads in namespace {SYSTEM_NAMESPACE}" in done.stderr) == (2, True)
