from __future__ import annotations

import io
import json
import re
import textwrap
from pathlib import Path

import pytest
import yaml

from hetserve.api.manifests import ManifestError, Manifests, read_manifests
from hetserve.base import yaml_loader
from hetserve.base.plain_scalars import PLAIN
from hetserve.base.yaml_loader import contents, key_text
from testing.data import REPOSITORY

TYPE = """
apiVersion: hetserve.io/v1alpha1
kind: InstanceType
metadata: {name: a}
spec:
  price: {hourly: "1"}
"""
PROFILE = """
apiVersion: hetserve.io/v1alpha1
kind: ModelProfile
metadata: {name: p}
spec:
  model: m
  instanceType: a
  latency: {linear: {intercept: 1ms, slope: 1ms}}
  computeShare: "0.5"
  sharingMode: MPS
  interference: [{model: other, batch: 1, factor: "1.1"}]
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
    assert found.notes == ("stdin:13: ConfigMap/c is not of hetserve.io: ignored",)


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
        "stdin:8: InferenceService/s: spec.budget.hourly: 2.5 is a number; money is decimal text, so that no "
        'cent is rounded: put it in quotes, "2.5"',
    ),
    "a price of 0": (
        changed(TYPE, '"1"', '"0"'),
        "stdin:6: InstanceType/a: spec.price.hourly: '0' must be more than 0 $/h, for example 2.5",
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
    "a share above 1": (
        changed(PROFILE, '"0.5"', '"57"'),
        "ModelProfile/p: spec.computeShare: '57' must be above 0 and at most 1, for example 0.57",
    ),
    "a share that is none": (
        changed(PROFILE, '"0.5"', "half"),
        'spec.computeShare: \'half\' is not a decimal number such as "0.57" or "1.08"',
    ),
    "a share as a number": (
        changed(PROFILE, '"0.5"', "0.5"),
        'spec.computeShare: 0.5 is a number; put it in quotes, "0.5"',
    ),
    "a factor below 1": (
        changed(PROFILE, '"1.1"', '"0.9"'),
        "spec.interference[0].factor: '0.9' must be at least 1, for example 1.08",
    ),
    "a share without its mode": (
        changed(PROFILE, "  sharingMode: MPS\n", ""),
        "ModelProfile/p: spec: computeShare and sharingMode must be set together",
    ),
    "an unknown form of sharing": (
        changed(SERVICE, "  template", "  sharing: Alone\n  template"),
        "spec.sharing: 'Alone' must be one of 'Shared' or 'Exclusive'",
    ),
    "an unknown planner": (
        changed(SERVICE, "  template", "  planner: fastest\n  template"),
        "spec.planner: 'fastest' must be one of ",
    ),
    "a planner for the other objective": (
        changed(SERVICE, "  template", "  planner: ilp\n  template"),
        "spec: planner: 'ilp' does not plan for MaxThroughput; choose one of ",
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
    "no kind": (changed(TYPE, "kind: InstanceType", ""), "stdin:2: kind is missing"),
    "no mapping": ("just words", "stdin:1: a manifest is a mapping"),
    "no YAML": ("a: [1, 2", "stdin:1:9: not valid YAML or JSON: expected ',' or ']'"),
    "a key twice": (changed(TYPE, "spec:", "kind: InstanceType\nspec:"), "key 'kind' is there twice"),
    "an object twice": (
        f"{TYPE}---{TYPE}",
        "stdin:8: InstanceType/a is there twice, first at stdin:2; keep one",
    ),
    "tabs": ("a:\n\tb: 1", "stdin:2:1: not valid YAML or JSON: found character"),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_name_the_place_the_value_and_what_would_be_right(case: str) -> None:
    text, message = BAD[case]
    found = errors(text)
    assert any(message in error for error in found), found
    assert not any("pydantic" in error or "http" in error for error in found)
    assert all("\n" not in error for error in found)


def test_every_error_is_reported() -> None:
    assert len(errors(changed(changed(SERVICE, "100ms", "fast"), "batch: 1,", "batch: 0,"))) == 2


def test_of_many_errors_the_first_and_the_number_of_the_others_are_reported() -> None:
    unknown = "".join(f"  k{n}: 1\n" for n in range(50))
    found = errors(changed(SERVICE, "  template", f"{unknown}  template"))
    assert len(found) == 21
    assert "spec.k19: is not a field" in found[19]
    assert found[20] == "and 30 more"


def test_to_name_the_lines_of_many_errors_reads_every_key_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    read_keys = 0

    def counted(key: yaml.Node) -> str:
        nonlocal read_keys
        read_keys += 1
        return key_text(key)

    monkeypatch.setattr(yaml_loader, "key_text", counted)
    errors(changed(SERVICE, "  template", "".join(f"  k{n}: 1\n" for n in range(1000)) + "  template"))
    assert 1000 < read_keys < 5000


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


LISTED = """apiVersion: v1
kind: List
items:
- apiVersion: hetserve.io/v1alpha1
  kind: InstanceType
  metadata: {name: a}
  spec:
    price:
      hourly: 1
- apiVersion: hetserve.io/v1alpha1
  kind: InstanceType
  metadata:
    name: B
  spec: {}
"""
AS_JSON = json.dumps(
    {
        "apiVersion": "hetserve.io/v1alpha1",
        "kind": "InstanceType",
        "metadata": {"name": "a"},
        "spec": {"price": {"hourly": 1}, "prise": 2},
    },
    indent="\t",
)
LINES = {
    "a field of a later document": (f"{TYPE}---{changed(SERVICE, '100ms', 'fast')}", ("stdin:13: ",)),
    "an entry of a list": (changed(SERVICE, "batch: 1,", "batch: 0,"), ("stdin:9: ",)),
    "items of a List": (LISTED, ("stdin:9: ", "stdin:13: ")),
    "a missing field: what it belongs in": (changed(TYPE, '  price: {hourly: "1"}', "  price: {}"), ("stdin:6: ",)),
    "a missing field of the object: its beginning": (f"{TYPE}---{SERVICE.partition('spec:')[0]}", ("stdin:8: ",)),
    "JSON with tabs": (AS_JSON, ("stdin:9: ", "stdin:11: ")),
    "JSON that is cut off": (AS_JSON[:-30], ("stdin:9:",)),
    "an alias: where its anchor is": (
        "x: &x {hourly: 1}\n" + changed(TYPE, '{hourly: "1"}', "*x").lstrip(),
        ("stdin:1: ", "stdin:1: "),
    ),
}


@pytest.mark.parametrize("case", LINES)
def test_every_error_names_its_line(case: str) -> None:
    text, places = LINES[case]
    found = errors(text)
    assert [error.startswith(place) for error, place in zip(found, places, strict=True)] == [True] * len(places), found


def test_what_json_writers_print_is_a_number() -> None:
    load = read(changed(SERVICE, "weight: 1", "weight: 5e-05")).services[0].spec.load
    assert load is not None
    assert load.batch_sizes[0].weight == 5e-05


def test_a_whole_number_is_one_however_it_is_written() -> None:
    for text in ("1.0", "1e0", "0x1", "+1"):
        load = read(changed(SERVICE, "batch: 1,", f"batch: {text},")).services[0].spec.load
        assert load is not None
        assert load.batch_sizes[0].batch == 1


def test_json_with_tabs_and_escapes_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    content = {**json.loads(AS_JSON), "spec": {"price": {"hourly": "1"}}}
    content["metadata"]["annotations"] = {"note": "a/😀"}
    text = json.dumps(content, indent="\t").replace("a/", "a\\/")
    assert "\\/\\ud83d" in text
    other = text.replace('"a"', '"b"')
    path.write_text(f"{text}\n{other}", encoding="utf-8-sig")
    found = read_manifests([str(path)]).types
    assert [one.metadata.name for one in found] == ["a", "b"]
    assert found[0].metadata.annotations == {"note": "a/😀"}


BOMBS = {
    "aliases of aliases": "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{c}: &{c} [{','.join(['*' + p] * 10)}]\n" for p, c in zip("abcdefg", "bcdefgh", strict=True)),
    "itself": "a: &a [*a]",
    "deep nesting": "[" * 100_000,
    "deep nesting of JSON": '{"a":' * 100_000,
    "a key of a list": "{[1]: a}",
    "a tag of Python's": "!!python/object/apply:os.system [ls]",
    "a character that is none": "a: \x07",
    "a mapping that is a list": "a: !!map [1]",
    "a set": "a: !!set {b, c}",
    "bytes": "a: !!binary aGk=",
    "a list of pairs": "a: !!omap [{b: 1}]",
    "a key with a tag": "!!int 0x10: a",
    "a merge of a number": "a: {<<: [1]}",
    "a date that is a list": "a: !!timestamp [1]",
    "a tag of the reader's own": f"a: !<{PLAIN}> [1]",
    "a key with a tag of the reader's own": f"!<{PLAIN}> [1]: a",
}


def test_a_merged_key_counts_as_written_at_the_merge() -> None:
    merged = "x: &x {batch: 4}\ny: &y {batch: 5}\n"
    for entry, batch in {"<<: *x, batch: 3": 3, "batch: 3, <<: *x": 4, "batch: 3, <<: [*y, *x]": 5}.items():
        (document,) = contents(f"{merged}v: {{{entry}}}")
        assert document["v"] == {"batch": batch}


def test_tabs_part_what_is_on_a_line_and_never_indent() -> None:
    text = "a:\t1\t# c\nb\t: {\tc: 2,\n  d:\t3\t}\t\ne: ! 5\n"
    assert contents(text) == [{"a": 1, "b": {"c": 2, "d": 3}, "e": "5"}]
    for indented in ("a:\n\tb: 1", "a:\n-\tb: 1", "a:\n  \tb: 1", "a: [b\n\t]"):
        with pytest.raises(yaml.MarkedYAMLError, match="cannot start any token"):
            contents(indented)


@pytest.mark.parametrize("case", BOMBS)
def test_what_no_manifest_is_made_of_is_refused(case: str) -> None:
    (found,) = errors(BOMBS[case])
    assert re.match(r"stdin(:\d+:\d+)?: not valid YAML or JSON: ", found), found
    assert len(found) < 200
