from __future__ import annotations

import io
import textwrap
from pathlib import Path

import pytest

from hetserve.api.manifests import ManifestError, Manifests, read_manifests
from hetserve.testing.data import REPOSITORY

TYPE = """
apiVersion: hetserve.io/v1alpha1
kind: InstanceType
metadata: {name: a}
spec:
  price: {hourly: "1"}
"""
SERVICE = """
apiVersion: hetserve.io/v1alpha1
kind: InferenceService
metadata: {name: s}
spec:
  model: {name: m}
  slo: {latency: 100ms}
  budget: {hourly: "2.5"}
  load: {batchSizes: [{batch: 1, weight: 1}]}
  template: {}
"""


def read(text: str) -> Manifests:
    return read_manifests(["-"], io.StringIO(textwrap.dedent(text)))


def errors(text: str) -> tuple[str, ...]:
    with pytest.raises(ManifestError) as caught:
        read(text)
    return caught.value.errors


def test_documents_lists_and_foreign_kinds() -> None:
    found = read(
        f"""---{TYPE}---
# only a comment
---
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: ConfigMap
    metadata: {{name: c}}
  - apiVersion: hetserve.io/v1alpha1
    kind: InstanceType
    metadata: {{name: b, labels: {{tier: gold}}}}
    spec: {{price: {{hourly: "2"}}, resources: {{cpu: 2, memory: 1Gi}}}}
---{SERVICE}"""
    )
    assert [t.metadata.name for t in found.types] == ["a", "b"]
    assert [s.metadata.name for s in found.services] == ["s"]
    assert found.notes == ("stdin, document 3, item 1: ConfigMap/c is not of hetserve.io: ignored",)


def test_several_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "types").mkdir()
    (tmp_path / "types" / "a.yaml").write_text(TYPE, encoding="utf-8")
    (tmp_path / "types" / "readme.txt").write_text("not a manifest", encoding="utf-8")
    (tmp_path / "s.yml").write_text(SERVICE, encoding="utf-8")
    found = read_manifests([str(tmp_path / "types"), str(tmp_path / "s.yml")])
    assert (len(found.types), len(found.services)) == (1, 1)


@pytest.mark.parametrize("name", ["rm2.yaml", "hetsev.yaml"])
def test_the_samples_are_valid(name: str) -> None:
    found = read_manifests([str(REPOSITORY / "manifests" / "samples" / name)])
    assert found.services
    assert found.notes == ()


def changed(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


BAD = {
    "a price as a number": (
        changed(SERVICE, 'hourly: "2.5"', "hourly: 2.5"),
        "stdin, document 1: InferenceService/s: spec.budget.hourly: 2.5 is a number; money is decimal text, so that no "
        'cent is rounded: put it in quotes, "2.5"',
    ),
    "a price of 0": (
        changed(TYPE, '"1"', '"0"'),
        "stdin, document 1: InstanceType/a: spec.price.hourly: '0' must be more than 0 $/h, for example 2.5",
    ),
    "a price that is none": (
        changed(TYPE, '"1"', '"cheap"'),
        "InstanceType/a: spec.price.hourly: 'cheap' is not a price in $/h; write for example \"0.526\"",
    ),
    "a duration without a unit": (
        changed(SERVICE, "100ms", "100"),
        'spec.slo.latency: 100 is a number; put it in quotes, "100", with its unit if it has one',
    ),
    "a duration that is none": (
        changed(SERVICE, "100ms", "fast"),
        "spec.slo.latency: 'fast' is not a duration; write for example 350ms, 1.5s or 2m",
    ),
    "a latency of 0": (changed(SERVICE, "100ms", "0s"), "spec.slo.latency: '0s' must be longer than zero"),
    "an unknown field": (
        changed(TYPE, "  price", "  prise: 1\n  price"),
        "InstanceType/a: spec.prise: is not a field of this object (value 1); check the spelling",
    ),
    "a missing field": (changed(SERVICE, "model: {name: m}", ""), "InferenceService/s: spec.model: is required"),
    "an unknown choice": (
        changed(SERVICE, "  template", "  objective: Fastest\n  template"),
        "spec.objective: 'Fastest' must be one of 'MaxThroughput' or 'MinCost'",
    ),
    "a rule over two fields": (
        changed(SERVICE, '  budget: {hourly: "2.5"}', ""),
        "spec: budget.hourly is required for MaxThroughput",
    ),
    "NaN": (changed(SERVICE, "weight: 1", "weight: .nan"), "spec.load.batchSizes[0].weight: nan must be"),
    "infinity": (changed(SERVICE, "weight: 1", "weight: .inf"), "spec.load.batchSizes[0].weight: inf must be"),
    "text where a number belongs": (
        changed(SERVICE, "batch: 1,", 'batch: "1",'),
        "spec.load.batchSizes[0].batch: '1' must be a valid integer",
    ),
    "a batch of 0": (changed(SERVICE, "batch: 1,", "batch: 0,"), "batch: 0 must be greater than or equal to 1"),
    "a name no apiserver takes": (
        changed(TYPE, "name: a", "name: G4DN_xlarge"),
        "InstanceType/G4DN_xlarge: metadata.name: 'G4DN_xlarge' is not a DNS subdomain",
    ),
    "a name that is a number": (
        changed(TYPE, "name: a", "name: 42"),
        "metadata.name: 42 is not text; put it in quotes",
    ),
    "no name": (changed(TYPE, "{name: a}", "{}"), "InstanceType/(no name): metadata.name: is required"),
    "a namespace no apiserver takes": (
        changed(SERVICE, "{name: s}", "{name: s, namespace: A.b}"),
        "metadata.namespace: 'A.b' is not a DNS label",
    ),
    "a service name too long for a label": (
        changed(SERVICE, "{name: s}", "{name: " + "s" * 64 + "}"),
        "has 64 characters; at most 63, since it becomes a label of pods",
    ),
    "another version": (
        changed(TYPE, "v1alpha1", "v2"),
        "InstanceType/a: apiVersion 'hetserve.io/v2' must be hetserve.io/v1alpha1",
    ),
    "an unknown kind of ours": (
        changed(TYPE, "InstanceType", "InstanceTyp"),
        "has no kind InstanceTyp; hetserve.io/v1alpha1 has InferenceService, InstanceType, ModelProfile",
    ),
    "no kind": (changed(TYPE, "kind: InstanceType", ""), "stdin, document 1: kind is missing"),
    "no mapping": ("just words", "stdin, document 1: a manifest is a mapping"),
    "no YAML": ("a: [1, 2", "stdin: not valid YAML: line "),
    "a key twice": (changed(TYPE, "spec:", "kind: InstanceType\nspec:"), "key 'kind' is there twice"),
    "an object twice": (
        f"{TYPE}---{TYPE}",
        "stdin, document 2: InstanceType/a is there twice, first in stdin, document 1; keep one",
    ),
    "tabs": ("a:\n\tb: 1", "stdin: not valid YAML: line 2, column 1"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_the_place_the_value_and_what_would_be_right(case: str) -> None:
    text, message = BAD[case]
    found = errors(text)
    assert any(message in error for error in found), found
    assert not any("pydantic" in error or "http" in error for error in found)
    assert all("\n" not in error for error in found)


def test_every_error_is_told_not_only_the_first() -> None:
    assert len(errors(changed(changed(SERVICE, "100ms", "fast"), "batch: 1,", "batch: 0,"))) == 2


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ManifestError) as caught:
        read_manifests([str(tmp_path / "gone.yaml"), str(tmp_path / "binary.yaml"), str(tmp_path / "empty")])
    gone, binary, empty = caught.value.errors
    assert "gone.yaml: cannot be read: No such file" in gone
    assert "binary.yaml: cannot be read: it is not UTF-8 text" in binary
    assert "the folder holds no .yaml, .yml, .json file" in empty


def test_equal_names_in_two_namespaces_are_two_objects() -> None:
    other = changed(SERVICE, "{name: s}", "{name: s, namespace: other}")
    assert len(read(f"{SERVICE}---{other}").services) == 2


def test_dates_stay_text() -> None:
    profile = """
    apiVersion: hetserve.io/v1alpha1
    kind: ModelProfile
    metadata: {name: p}
    spec:
      model: m
      instanceType: a
      latency: {linear: {intercept: 1ms, slope: 1ms}}
      measuredAt: 2024-05-01T10:00:00Z
    """
    assert read(profile).profiles[0].spec.measured_at == "2024-05-01T10:00:00Z"
