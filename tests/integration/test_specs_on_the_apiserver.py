"""The table of valid and invalid specs, as a real apiserver answers it (the models: tests/unit/api)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cluster import Cluster
from harness.kube import ApiError, Manifest
from hetserve.api.inference_service import InferenceService, InferenceServiceStatus
from kstatus import kstatus
from testing import builders

TABLE = yaml.safe_load((Path(__file__).parents[1] / "golden" / "api" / "specs.yaml").read_text())


CREATED = "created"


def build(row: dict[str, Any]) -> Manifest:
    overrides = {path: builders.REMOVED if value is None else value for path, value in row.get("set", {}).items()}
    manifest: Manifest = getattr(builders, row["of"])(overrides=overrides)
    return manifest


def answer_to(cluster: Cluster, manifest: Manifest) -> str:
    """What the API server says of a manifest, asked as kubectl asks: fields that it does not know are refused."""
    read = yaml.safe_load(yaml.safe_dump(manifest))
    resource = cluster.kube.resource(f"{read['apiVersion']}/{read['kind']}")
    path = resource.path("default" if resource.namespaced else None)
    try:
        cluster.kube.request("POST", path, json=read, params={"dryRun": "All", "fieldValidation": "Strict"})
    except ApiError as error:
        return error.message
    return CREATED


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["case"])
def test_spec_table(bare_cluster: Cluster, row: dict[str, Any]) -> None:
    answer = answer_to(bare_cluster, build(row))
    if "wants" in row:
        assert answer != CREATED
        assert row["wants"] in answer
    else:
        assert answer == CREATED


def test_kubectl_tells_its_user_what_the_apiserver_answers(bare_cluster: Cluster) -> None:
    arguments = ("create", "--dry-run=server", "-f", "-")
    good = bare_cluster.kubectl(*arguments, stdin=yaml.safe_dump(builders.service()))
    assert "created (server dry run)" in good
    unknown = builders.service(overrides={"spec.invented": True})
    assert answer_to(bare_cluster, unknown) in bare_cluster.kubectl(
        *arguments, stdin=yaml.safe_dump(unknown), check=False
    )


@pytest.mark.parametrize(("length", "good"), [(4096, True), (4097, False)])
def test_a_query_has_a_greatest_length(bare_cluster: Cluster, length: int, good: bool) -> None:
    queries = {"rate": "a" * length, "latency": "a", "batchSizes": "a"}
    service = builders.service(overrides={"spec.metrics": {"source": "Queries", "queries": queries}})
    answer = answer_to(bare_cluster, service)
    assert (answer == CREATED) is good
    assert ("spec.metrics.queries.rate" in answer) is not good


def test_only_fields_under_no_rule_across_fields_are_filled_in(bare_cluster: Cluster, namespace: str) -> None:
    scaled = {"spec.objective": "MinCost", "spec.load": builders.REMOVED, "spec.metrics": {"source": "Hetserve"}}
    scaling: dict[str, Any] = {"scaleUp": {}, "scaleDown": {}}
    service = builders.service(overrides={"metadata.namespace": namespace, "spec.scaling": scaling, **scaled})

    (stored,) = bare_cluster.apply(service)

    spec = stored["spec"]
    assert spec["metrics"] == {"source": "Hetserve"}
    assert spec["scaling"] == {
        "saturation": "0.8",
        "tolerance": "0.1",
        "scaleUp": {"stabilizationWindow": "30s", "lookAhead": "LaunchTime"},
        "scaleDown": {"stabilizationWindow": "5m"},
    }
    assert (spec["mode"], spec["pause"], spec["budget"]["whenTooLow"]) == ("Apply", "None", "Shrink")


def test_the_model_of_a_service_cannot_change(bare_cluster: Cluster, namespace: str) -> None:
    service = builders.service(overrides={"metadata.namespace": namespace})
    bare_cluster.apply(service)

    changed = builders.with_overrides(service, {"spec.model.name": "other"})
    arguments = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    answer = bare_cluster.kubectl(*arguments, stdin=yaml.safe_dump(changed), check=False)

    assert "model.name is immutable: make a new service for another model" in answer


def test_defaults_are_filled_in_by_the_apiserver(bare_cluster: Cluster, namespace: str) -> None:
    service = builders.service(
        overrides={"metadata.namespace": namespace, "spec.slo": {"latency": "1s"}, "spec.objective": builders.REMOVED}
    )
    (stored,) = bare_cluster.apply(service)

    assert stored["spec"]["slo"]["percentile"] == "99"
    assert stored["spec"]["objective"] == "MaxThroughput"


def test_a_service_that_nobody_has_seen_does_not_read_as_current(bare_cluster: Cluster, namespace: str) -> None:
    service = builders.service(overrides={"metadata.namespace": namespace})
    bare_cluster.apply(service)
    unseen = bare_cluster.kube.get("inferenceservices", "rm2", namespace)

    patch = '[{"op": "replace", "path": "/status", "value": {}}]'
    bare_cluster.kubectl("patch", "hisvc/rm2", "-n", namespace, "--subresource=status", "--type=json", "-p", patch)
    emptied = bare_cluster.kube.get("inferenceservices", "rm2", namespace)

    for stored in (unseen, emptied):
        assert stored["status"]["observedGeneration"] == -1
        assert kstatus(stored) == "InProgress"


def test_what_the_apiserver_answers_can_be_planned_from(bare_cluster: Cluster, namespace: str) -> None:
    bare_cluster.apply(builders.service(overrides={"metadata.namespace": namespace}))

    stored = bare_cluster.kube.get("inferenceservices", "rm2", namespace)

    assert InferenceService.model_validate(stored).status == InferenceServiceStatus()


def test_get_shows_the_columns_that_answer_what_it_runs_and_costs(bare_cluster: Cluster, namespace: str) -> None:
    bare_cluster.apply(builders.service(overrides={"metadata.namespace": namespace}))

    header, row = bare_cluster.kubectl("get", "hisvc", "--namespace", namespace).splitlines()

    assert header.split() == ["NAME", "MODEL", "SLO", "READY", "PLAN", "QPS", "COST/H", "REASON", "AGE"]
    assert row.split()[:3] == ["rm2", "rm2", "350ms"]
    wide, _ = bare_cluster.kubectl("get", "hisvc", "--namespace", namespace, "-o", "wide").splitlines()
    assert {"LOAD", "METRICS"} <= set(wide.split())
    assert "rm2" in bare_cluster.kubectl("get", "hetserve", "--namespace", namespace), "category hetserve"
