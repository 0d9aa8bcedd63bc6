"""`hetserve why -f`: what a pod would get that is not created yet."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from hetserve.api import names
from hetserve.cli.app import app
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]
NODE = gpu_node("n0", gpus=2, product="T4", memory_mib=16384)
HOLDER = gpu_pod("holder", memory_mib=6000, model="resnet", node="n0", gpu="0")
WAITS = gpu_pod("waits", memory_mib=100, model="bert", gates=(names.QUEUE_GATE,), created="2026-01-01T00:00:00Z")


def manifest(**metadata: Any) -> Json:
    limits = {names.RESOURCE_GPU_MEMORY: 2000}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new", "labels": {names.LABEL_MODEL: "resnet"}} | metadata,
        "spec": {
            "schedulerName": names.SCHEDULER_NAME,
            "containers": [{"name": "model", "image": "x", "resources": {"limits": limits}}],
        },
    }


def ask(folder: Path, written: object, *arguments: str) -> Result:
    items = [{"kind": "Node", **NODE}, *({"kind": "Pod", **pod} for pod in (HOLDER, WAITS))]
    dump, file = folder / "dump.json", folder / "pod.yaml"
    dump.write_text(json.dumps({"kind": "List", "takenAt": "2026-01-01T00:01:40Z", "items": items}))
    file.write_text(written if isinstance(written, str) else yaml.safe_dump(written))
    return CliRunner().invoke(app, ["why", "-f", str(file), "--from", str(dump), *arguments])


def answer(folder: Path, written: object, *arguments: str, code: int = 0) -> Json:
    done = ask(folder, written, "-o", "json", *arguments)
    assert done.exit_code == code, done.output
    said: Json = json.loads(done.stdout)
    return said


def test_what_is_not_created_is_judged_as_the_same_pod_would_be(tmp_path: Path) -> None:
    said = answer(tmp_path, manifest())
    assert said["state"] == "NotCreated"
    assert said["asks"] == "2000 MiB", "limits alone ask, too"
    assert said["decision"]["chosen"] == {"node": "n0", "gpus": ["1"]}
    created = gpu_pod("new", memory_mib=2000, model="resnet")
    items = [{"kind": "Node", **NODE}, *({"kind": "Pod", **pod} for pod in (HOLDER, WAITS, created))]
    dump = json.dumps({"kind": "List", "takenAt": "2026-01-01T00:01:40Z", "items": items})
    there = json.loads(CliRunner().invoke(app, ["why", "new", "--from", "-", "-o", "json"], input=dump).stdout)
    assert {key: said[key] for key in ("decision", "gpus", "request")} == {
        key: there[key] for key in ("decision", "gpus", "request")
    }


@pytest.mark.parametrize(
    ("written", "arguments", "gpus"),
    [({}, (), ["1"]), ({}, ("-n", "team"), ["0", "1"]), ({"namespace": "team"}, (), ["0", "1"])],
    ids=["where the model is", "asked for another namespace", "of another namespace"],
)
def test_its_namespace_says_whose_model_it_is(
    tmp_path: Path, written: Json, arguments: tuple[str, ...], gpus: list[str]
) -> None:
    said = answer(tmp_path, manifest(**written), *arguments)
    assert [gpu["gpu"] for gpu in said["gpus"] if gpu["fits"]] == gpus


def test_what_would_fit_nowhere_exits_with_3(tmp_path: Path) -> None:
    large = manifest()
    large["spec"]["containers"][0]["resources"]["limits"][names.RESOURCE_GPU_MEMORY] = "20000"
    said = answer(tmp_path, large, code=3)
    assert said["message"].startswith("is not created; once it is, it ")
    assert said["message"].endswith("no GPU fits now")


def test_a_gated_pod_would_stand_behind_those_that_wait(tmp_path: Path) -> None:
    gated = manifest()
    gated["spec"]["schedulingGates"] = [{"name": names.QUEUE_GATE}]
    queue = answer(tmp_path, gated)["queue"]
    assert (queue["older"], queue["waitedSeconds"]) == (1, 0.0)


def test_a_workload_is_judged_by_its_template(tmp_path: Path) -> None:
    template = manifest()
    whole = {
        "kind": "Deployment",
        "metadata": {"name": "many", "namespace": "team"},
        "spec": {"template": {"metadata": {"labels": template["metadata"]["labels"]}, "spec": template["spec"]}},
    }
    said = answer(tmp_path, whole)
    assert said["pod"] == {"namespace": "team", "name": "many", "uid": "not-created"}
    assert said["request"]["model"] == "resnet"


def test_a_status_that_somebody_has_copied_along_counts_for_nothing(tmp_path: Path) -> None:
    copied = manifest() | {"status": {"phase": "Succeeded"}}
    copied["metadata"] |= {"uid": HOLDER["metadata"]["uid"], "creationTimestamp": "2020-01-01T00:00:00Z"}
    assert answer(tmp_path, copied)["state"] == "NotCreated"


def bound() -> Json:
    made = copy.deepcopy(manifest())
    made["spec"]["nodeName"] = "n0"
    return made


@pytest.mark.parametrize(
    ("written", "arguments", "words"),
    [
        (bound(), (), "spec.nodeName: 'n0' passes every scheduler by"),
        (manifest(namespace="a"), ("-n", "b"), "metadata.namespace is a, -n says b"),
        ({"kind": "Service"}, (), "kind: 'Service' is neither Pod nor one of"),
        ("a: 1\n---\nb: 2\n", (), "holds 2 documents; one manifest of a pod is wanted"),
        ("[", (), "not valid YAML or JSON"),
        ({"kind": "Pod", "spec": []}, (), "spec: [] is no mapping"),
        (manifest(), ("new",), "name one POD, or a manifest by -f FILE"),
    ],
    ids=["bound", "two namespaces", "another kind", "two documents", "no YAML", "no mapping", "a name beside"],
)
def test_a_manifest_that_cannot_be_judged_is_refused_with_words(
    tmp_path: Path, written: object, arguments: tuple[str, ...], words: str
) -> None:
    done = ask(tmp_path, written, *arguments)
    assert (done.exit_code, words in done.stderr) == (2, True), done.output


def test_a_pod_or_a_file_is_needed() -> None:
    assert "name one POD" in CliRunner().invoke(app, ["why"]).stderr
