"""`hetserve simulate` of a model with variants: what is answered, what options do, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from hetserve.cli.capacity.joined import play
from hetserve.cli.profiles.reference_fang import fang_manifests
from hetserve.dispatch.joining.weights import shipped_weights
from hetserve.serving.answers import ENDLESS_WAKING, contract_error
from testing.data import REPOSITORY

RM2 = str(REPOSITORY / "manifests" / "samples" / "rm2.yaml")
POLICY = ("--policy", "max-batch", "--queries", "2000")
KEYS = (
    "service model policy counts cost offeredQPS sloSeconds deadlineSeconds percentile ceilingQPS holds unstable "
    "attainment meanAccuracy meanUtility utilityDeviation shareByVariant meanJoined switches drops noise margin "
    "queries warmUp arrivals seeds maxSlowdown types utilisation runs"
)


@pytest.fixture(scope="module")
def yolo(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("yolo") / "fang.yaml"
    assert CliRunner().invoke(app, ["reference", "fang", "-o", str(path)]).exit_code == 0
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *arguments], catch_exceptions=False)


def answer(*arguments: str) -> Any:
    result = run(*arguments, *POLICY, "-o", "json")
    assert result.exit_code in (0, 3), result.stderr
    return json.loads(result.stdout)


def edited(folder: Path, kind: str, change: Any) -> str:
    """A file of Fang's manifests, of which those of a kind are changed."""
    documents = fang_manifests()
    for one in documents:
        if one["kind"] == kind:
            change(one["spec"])
    path = folder / "edited.yaml"
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    return str(path)


def test_the_keys_are_those_that_are_documented(yolo: str) -> None:
    document = answer(yolo, "--rate", "25", "--seeds", "2")
    assert sorted(document) == sorted(KEYS.split())
    assert (document["policy"], document["counts"]) == ("max-batch", {"g2.2xlarge": 0, "p2.xlarge": 1})
    assert (document["sloSeconds"], document["deadlineSeconds"]) == (1.0, 2.0), "spec.dispatch.deadline"
    assert [one["seed"] for one in document["runs"]] == [11, 12]
    assert sum(document["shareByVariant"].values()) == pytest.approx(1.0)
    for key in ("attainment", "meanUtility", "meanAccuracy"):
        each = [one[key] for one in document["runs"]]
        assert min(each) <= document[key] <= max(each)
    assert document["switches"] == sum(one["switches"] for one in document["runs"])


def test_more_load_is_served_by_the_tiny_variant_more_often(yolo: str) -> None:
    calm, busy, flood = (answer(yolo, "--rate", rate) for rate in ("10", "32", "300"))
    tiny = [one["shareByVariant"]["tiny"] for one in (calm, busy, flood)]
    assert tiny[0] < tiny[1] < tiny[2]
    assert calm["meanAccuracy"] > flood["meanAccuracy"]
    assert (calm["holds"], flood["holds"]) == (True, False)


def test_a_variant_alone_has_its_accuracy(yolo: str) -> None:
    document = answer(yolo, "--rate", "10", "--variant", "tiny")
    assert document["meanAccuracy"] == pytest.approx(57.1)
    assert (document["shareByVariant"], document["switches"]) == ({"tiny": 1.0}, 0)
    both = answer(yolo, "--rate", "10", "--variant", "tiny", "--variant", "full", "--variant", "tiny")
    assert list(both["shareByVariant"]) == ["tiny", "full"]


def test_a_policy_of_one_variant_serves_the_one_that_is_named(yolo: str) -> None:
    result = run(yolo, "--rate", "10", "--variant", "full", "--policy", "clipper", "--queries", "500", "-o", "json")
    assert json.loads(result.stdout)["meanAccuracy"] == pytest.approx(63.4)
    refused = run(yolo, "--rate", "10", "--policy", "clipper")
    assert refused.exit_code == 2
    assert "--policy clipper serves one variant: name it by --variant" in refused.stderr


def test_options_of_the_run_reach_it(yolo: str) -> None:
    given = ("--deadline", "1500ms", "--no-drop", "--noise", "0.2", "--margin", "0.1")
    plain, other = answer(yolo, "--rate", "28"), answer(yolo, "--rate", "28", *given)
    assert (plain["drops"], plain["noise"], plain["margin"]) == (True, None, 0.0)
    assert (other["drops"], other["noise"], other["margin"], other["deadlineSeconds"]) == (False, 0.2, 0.1, 1.5)
    assert plain["meanUtility"] != other["meanUtility"]
    assert answer(yolo, "--rate", "300", "--no-drop")["unstable"]


def test_a_margin_mends_what_noise_breaks(yolo: str) -> None:
    noise = ("--rate", "40", "--noise", "0.1", "--deadline", "1s")
    bold, careful = answer(yolo, *noise), answer(yolo, *noise, "--margin", "0.25")
    assert careful["attainment"] > bold["attainment"]


def test_counts_and_arrivals_are_those_that_are_given(yolo: str) -> None:
    cluster = ("--counts", "g2.2xlarge=5,p2.xlarge=5", "--arrivals", "bursty:100,100,4")
    document = answer(yolo, *cluster)
    assert (document["offeredQPS"], document["arrivals"]) == (200.0, "bursty:100,100,4")
    assert document["counts"] == {"g2.2xlarge": 5, "p2.xlarge": 5}
    assert all(share > 0 for share in document["utilisation"].values())


def test_the_table_names_every_figure_and_the_plot_every_variant(yolo: str, tmp_path: Path) -> None:
    path = tmp_path / "out.svg"
    shown = run(yolo, "--rate", "25", *POLICY, "--plot", str(path)).stdout
    for words in (
        "yolo: 1xp2.xlarge under max-batch",
        "worth nothing after 2000 ms",
        "at a mean accuracy of 63",
        "full",
        "0 queries dropped, 0 unfinished",
    ):
        assert words in shown
    drawn = path.read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")


def test_the_plan_of_a_model_with_variants_says_which_one_it_is_for(yolo: str) -> None:
    result = CliRunner().invoke(app, ["plan", yolo, "--planner", "homogeneous"], catch_exceptions=False)
    assert "note: yolo: of the variants the most accurate is planned: full" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--policy", "max-batch"), "give either --rate Q/S"),
        (("--rate", "9", "--policy", "max-batch", "--variant", "ful"), "--variant ful: no such variant of yolo; there"),
        (("--rate", "9", "--policy", "max-batch", "--deadline", "999ms"), "--deadline 999 ms: is shorter than the SLO"),
        (("--rate", "9", "--policy", "max-batch", "--slo", "3s"), "spec.dispatch.deadline 2s: is shorter than the SLO"),
        (("--rate", "9", "--policy", "max-batch", "--noise", "-1"), "'-1' must be a share from 0 to 10"),
        (("--rate", "9", "--policy", "max-batch", "--margin", "nan"), "'nan' must be a share from 0 to 10"),
        (("--find-allowable", "--policy", "max-batch"), "--find-allowable does not go with --policy max-batch"),
        (("--rate", "9", "--variant", "tiny"), "--variant needs a policy that joins queries: --policy "),
        (("--rate", "9", "--no-drop"), "--drop needs a policy that joins queries"),
        (("--rate", "9", "--deadline", "2s"), "--deadline needs a policy that joins queries"),
        (("--rate", "9", "--policy", "max-batch", "--counts", "a100=1"), "--counts a100: no such instance type"),
        (
            ("--together", "--nodes", "n.yaml", "--policy", "max-batch"),
            "--policy max-batch does not go with --together",
        ),
        (
            ("--together", "--nodes", "n.yaml", "--arrivals", "ramp:1,9,1,0"),
            "do not go with --together: they are of one",
        ),
        (
            ("--rate", "9", "--policy", "max-batch", "--batches", "normal:80,1", "--counts", "p2.xlarge=1"),
            "queries of 87 items: variants serve at most 64 together",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(yolo: str, arguments: tuple[str, ...], words: str) -> None:
    result = run(yolo, *arguments)
    assert result.exit_code == 2, result.output
    assert words in result.stderr


def test_weights_that_prefer_to_wait_serve_while_an_answer_is_in_time(yolo: str, tmp_path: Path) -> None:
    weights = _waiting_weights(tmp_path)
    result = run(yolo, "--rate", "20", "--policy", "fang-rl", "--weights", weights, "--queries", "500", "-o", "json")
    assert result.exit_code in (0, 3), result.stderr
    assert all(one["unfinished"] == 0 for one in json.loads(result.stdout)["runs"])


def test_a_policy_that_breaks_its_contract_is_refused_with_what_to_do(
    yolo: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> NoReturn:
        raise contract_error("fang-rl", ENDLESS_WAKING)

    monkeypatch.setattr(play, "simulate_joined", broken)
    refused = run(yolo, "--rate", "20", "--policy", "fang-rl", "--weights", _waiting_weights(tmp_path))
    assert refused.exit_code == 2
    assert "Error: yolo: policy fang-rl asks to be woken again and again without doing anything" in refused.stderr
    assert "choose another --policy, or other --weights" in refused.stderr


def _waiting_weights(folder: Path) -> str:
    """A file of weights by which to wait is best at all times."""
    shipped = next(one for one in shipped_weights() if list(one.fleet) == ["p2.xlarge"])
    bias = np.append(np.zeros(len(shipped.network.outer_bias) - 1), 1e9)
    weights = replace(shipped, network=shipped.network._replace(outer_bias=bias))
    (folder / "weights.json").write_text(json.dumps(weights.as_json()), encoding="utf-8")
    return str(folder / "weights.json")


def test_a_model_without_variants_has_nothing_to_choose_among() -> None:
    result = run(RM2, "--rate", "9", *POLICY)
    assert result.exit_code == 2
    assert "policy max-batch chooses among variants, and spec.model.variants names none" in result.stderr


@pytest.mark.parametrize(
    ("kind", "change", "words"),
    [
        (
            "InferenceService",
            lambda spec: spec["model"]["variants"].append({"name": "huge", "accuracy": "70"}),
            "ModelProfile yolo-g2.2xlarge has no latency of variant huge of spec.model.variants; it has tiny, full",
        ),
        (
            "InferenceService",
            lambda spec: spec["model"]["variants"][0].update(accuracy="157.1"),
            "spec.model.variants[0].accuracy: '157.1' must be at most 100, for example 79.44",
        ),
        (
            "InferenceService",
            lambda spec: spec["model"]["variants"][0].update(accuracy=57.1),
            "spec.model.variants[0].accuracy: 57.1 is a number; put it in quotes",
        ),
        (
            "ModelProfile",
            lambda spec: spec["variants"][0].pop("latency"),
            "spec.variants[0].latency: is required",
        ),
        (
            "ModelProfile",
            lambda spec: spec.update(switchTime="-1ms"),
            "spec.switchTime: '-1ms' is not a duration",
        ),
    ],
    ids=["no latency", "accuracy above 100", "accuracy as a number", "variant without latency", "negative switch time"],
)
def test_manifests_that_do_not_fit_are_named_by_field(tmp_path: Path, kind: str, change: Any, words: str) -> None:
    result = run(edited(tmp_path, kind, change), "--rate", "9", *POLICY)
    assert result.exit_code in (2, 3)
    assert words in result.stderr


def test_names_and_order_of_variants_change_no_figure(tmp_path: Path, yolo: str) -> None:
    def renamed(spec: Any) -> None:
        variants = spec["variants"] if "variants" in spec else spec["model"]["variants"]
        variants.reverse()
        for one in variants:
            one["name"] = {"tiny": "zebra", "full": "ant"}[one["name"]]

    documents = fang_manifests()
    for one in documents:
        if one["kind"] != "InstanceType":
            renamed(one["spec"])
    path = tmp_path / "renamed.yaml"
    path.write_text(yaml.safe_dump_all(documents), encoding="utf-8")
    before, after = (answer(file, "--rate", "32", "--noise", "0.1") for file in (yolo, str(path)))
    assert list(before.pop("shareByVariant").values()) == list(after.pop("shareByVariant").values())
    assert before.pop("runs")[0]["latencySeconds"] == after.pop("runs")[0]["latencySeconds"]
    assert before == after


@pytest.mark.parametrize("limit", [None, 1_000_000])
def test_a_line_without_an_end_joins_as_many_as_make_sense(tmp_path: Path, limit: int | None) -> None:
    def lines(spec: Any) -> None:
        line = {"latency": {"linear": {"intercept": "9ms", "slope": "1ms"}}} | ({"maxBatch": limit} if limit else {})
        spec["variants"] = [{"name": name, **line} for name in ("tiny", "full")]

    document = answer(edited(tmp_path, "ModelProfile", lines), "--rate", "900", "--no-drop", "--counts", "p2.xlarge=1")
    assert document["ceilingQPS"] == pytest.approx(1024 / 1.033)
    assert document["meanJoined"] > 8


def test_a_switch_time_of_the_profile_costs_time(tmp_path: Path, yolo: str) -> None:
    slow = edited(tmp_path, "ModelProfile", lambda spec: spec.update(switchTime="300ms"))
    quick, late = (answer(file, "--rate", "32") for file in (yolo, slow))
    assert quick["attainment"] > late["attainment"]
