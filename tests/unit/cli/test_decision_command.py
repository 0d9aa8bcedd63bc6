"""`hetserve decision replay` makes recorded decisions again, and says what differs."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.cli.app import app
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.record import DecisionRecord, decided_on_record, document_text
from hetserve.scaling.record.ring import Ring, appended, ring_manifest
from testing.scaling import NOW, facts, steady

Json = dict[str, Any]
OWNER = {"kind": "InferenceService", "name": "web", "uid": "u1"}


def record(rate: float = 60.0, at: float = NOW) -> DecisionRecord:
    _, made = decided_on_record("web", "team", facts(steady(rate), {"t4": 2}), Answers())
    assert made is not None
    return replace(made, at=at)


def config_map(*records: DecisionRecord) -> Json:
    ring: Ring = ()
    for one in records:
        ring = appended(ring, one)
    return ring_manifest(ring, "web", "team", OWNER)


def replayed(content: object, *arguments: str) -> Result:
    text = content if isinstance(content, str) else json.dumps(content)
    return CliRunner().invoke(app, ["decision", "replay", "-", *arguments], input=text)


def test_a_recorded_decision_is_made_again_identically() -> None:
    result = replayed(json.loads(document_text(record())))

    assert result.exit_code == 0, result.output
    assert "team/web" in result.stdout
    assert "ScaleUp (LoadAboveCapacity): 2xt4 -> 4xt4" in result.stdout
    assert "identical" in result.stdout


def test_a_ring_is_read_as_kubectl_prints_it_the_newest_first() -> None:
    printed = config_map(record(60.0), record(100.0, NOW + 60))
    forms = (json.dumps(printed), yaml.safe_dump(printed), json.dumps({"kind": "List", "items": [printed]}))
    for text in forms:
        results = [replayed(text, "-o", "json", *index) for index in ((), ("--index", "1"), ("--index", "2"))]
        assert [result.exit_code for result in results] == [0, 0, 0], results[0].output
        assert [json.loads(result.stdout)["to"] for result in results] == ["6xt4", "6xt4", "4xt4"]


def test_what_differs_is_said_field_by_field_with_exit_code_1() -> None:
    document = json.loads(document_text(record()))
    document["record"]["decision"]["counts"][1][1] = 7
    result = replayed(document)
    listed = json.loads(replayed(document, "-o", "json").stdout)

    assert result.exit_code == 1
    assert "decision.counts[1][1]: recorded 7, now 4" in result.stdout
    assert listed["identical"] is False
    assert listed["differences"] == [{"field": "decision.counts[1][1]", "recorded": 7, "now": 4}]


def test_facts_that_were_altered_make_another_decision() -> None:
    document = json.loads(document_text(record()))
    for sample in document["record"]["facts"]["demand"]["samples"]:
        sample["qps"] = 45.0
    result = replayed(document)

    assert result.exit_code == 1
    assert "decision.measured.lowest: recorded 60.0, now 45.0" in result.stdout


def test_recorded_answers_are_taken_where_that_is_asked_for_and_named() -> None:
    result = replayed(json.loads(document_text(record())), "--as-recorded", "-o", "json")

    found = json.loads(result.stdout)
    assert result.exit_code == 0
    assert [(one["answeredBy"], one["why"]) for one in found["questions"]] == [("Record", "as asked for")]


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("{", (), "is not JSON"),
        ("a: [", (), "is neither JSON nor YAML"),
        ("", (), "has 0 documents; give one"),
        ("a: 1\n---\nb: 2\n", (), "has 2 documents; give one"),
        ("[1]", (), "kind: None must be ScalingDecisionRecord or ConfigMap"),
        ({"kind": "Pod"}, (), "kind: 'Pod' must be ScalingDecisionRecord or ConfigMap"),
        ({"kind": "List", "items": []}, (), "items: 0 ConfigMaps; give one"),
        ({"kind": "List", "items": 5}, (), "items: 5 must be a list"),
        ({"kind": "List"}, (), "items: None must be a list"),
        ({"kind": "ConfigMap", "data": None}, (), "data: has no records of decisions"),
        ({"kind": "ConfigMap", "data": [1]}, (), "data: [1] must be an object"),
        ({"kind": "ConfigMap", "data": "abc"}, (), "data: 'abc' must be an object"),
        ({"kind": "ConfigMap", "data": 0}, (), "data: 0 must be an object"),
        (
            {"kind": "ConfigMap", "data": {"00000001-ScaleUp": "{}"}},
            (),
            "data.00000001-ScaleUp.record: None must be text",
        ),
        (
            {"kind": "ConfigMap", "data": {"00000001-ScaleUp": "no"}},
            (),
            "data.00000001-ScaleUp: 'no' must be an object",
        ),
        ({"kind": "ScalingDecisionRecord", "format": 9}, (), "format: 9 must be 3"),
        ({"kind": "ScalingDecisionRecord", "format": 2}, ("--index", "2"), "--index 2: the file has one record"),
    ],
)
def test_bad_input_is_named_with_exit_code_2(content: object, arguments: tuple[str, ...], words: str) -> None:
    result = replayed(content, *arguments)

    assert result.exit_code == 2
    assert words in result.stderr
    assert not result.stdout


@pytest.mark.parametrize("at", [math.nan, -math.inf, 1e308, -1e15])
def test_a_record_of_no_moment_is_refused(at: object) -> None:
    document = json.loads(document_text(record()))
    document["record"]["at"] = at
    result = replayed(document)

    assert result.exit_code == 2
    assert "record.at: " in result.stderr
    assert "must be the Unix seconds of a time" in result.stderr


def test_numbers_that_overflow_on_the_way_are_refused_in_one_line() -> None:
    document = json.loads(document_text(record()))
    document["record"]["facts"]["demand"]["samples"][-1]["qps"] = 1e308
    result = replayed(document)

    assert result.exit_code == 2
    assert result.stderr.startswith("Error: stdin: record.facts: facts cannot be decided on")
    assert result.stderr.count("\n") == 1


def test_an_index_beyond_the_ring_is_refused() -> None:
    result = replayed(config_map(record()), "--index", "2")

    assert result.exit_code == 2
    assert "--index 2: there are 1 records; 1 is the newest" in result.stderr


def test_a_record_without_facts_is_not_replayed() -> None:
    result = replayed(config_map(record().without_facts("not replayable: its facts take 70000 bytes")))

    assert result.exit_code == 2
    assert "not replayable: its facts take 70000 bytes" in result.stderr


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["decision", "replay", str(tmp_path / "none.json")])

    assert result.exit_code == 2
    assert "none.json: cannot be read" in result.stderr
