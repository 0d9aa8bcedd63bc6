"""Promise: instances share GPUs as their profiles were measured; what runs unmeasured is left alone until it is."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harness import limits
from harness.admission import unlocked
from harness.cluster import Cluster
from harness.failover import ELECTED, LEASE
from harness.kube import Manifest
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.api.names import (
    ANNOTATION_COUNTS_PAIRS,
    ANNOTATION_GPU,
    ANNOTATION_GPU_SHARING,
    ENV_MEMORY_LIMIT,
    RESOURCE_GPU,
    RESOURCE_GPU_COMPUTE,
    RESOURCE_GPU_MEMORY,
    SYSTEM_NAMESPACE,
)
from hetserve.base.units import Percent
from hetserve.planning.inputs import PlanSettings, build_problem
from hetserve.planning.offers import Offers, resolve_offers
from hetserve.planning.problem import Problem
from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.deployments.build import desired_deployment, with_replicas
from hetserve.reconcile.plans.plan_record import RecordedGpus, record_of_counts
from hetserve.reconcile.plans.planning_context import inputs_digest
from hetserve.scaling.plans.counts import cost_of
from testing.builders import MEASURED


def scene(sandbox: Sandbox, *models: str, share: str | None = "0.5", gpus: int = 2) -> str:
    """Nodes with one GPU each, priced per GiB, and a profile of 4 GiB of each model; returns the type."""
    sandbox.nodes("gpu", count=gpus, gpus=1)
    kind = sandbox.instance_type("gpu", overrides={"spec.price": {"hourly": "0.1", "per": "GiB"}})
    measured = {} if share is None else {**MEASURED, "spec.computeShare": share}
    for model in models:
        sandbox.profile(model, kind, overrides={"spec.gpuMemory": "4Gi", **measured})
    return kind


def serve(sandbox: Sandbox, model: str, kind: str, qps: float, **spec: Any) -> Manifest:
    overrides = {"spec.load": {"expectedQPS": qps}, **{f"spec.{field}": value for field, value in spec.items()}}
    return sandbox.service(model, model, [kind], overrides)


def measure(sandbox: Sandbox, model: str, kind: str, share: str) -> None:
    name = f"{model}-{kind}"[:63].rstrip("-.")
    patch = {"spec": {"computeShare": share, "sharingMode": "TimeSlicing"}}
    sandbox.kube.patch("modelprofiles", name, patch, sandbox.namespace)


def asked(pod: Manifest) -> dict[str, str]:
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    found = {name: amount for name, amount in limits.items() if name.startswith("hetserve.io")}
    stated = {ANNOTATION_GPU_SHARING: (pod["metadata"].get("annotations") or {}).get(ANNOTATION_GPU_SHARING)}
    return found | {key: text for key, text in stated.items() if text}


def terms(share: str, tolerance: str = "1.75", **factors: str) -> str:
    """The annotation of an instance that shares on these terms, in time-slicing."""
    written = {"share": share, "tolerance": tolerance, "factors": {"*": "1", **factors}}
    return json.dumps(written, separators=(",", ":"))


def instances(sandbox: Sandbox, model: str) -> dict[str, dict[str, str]]:
    """What each instance asks of its GPU, its terms among it, by UID of its pod."""
    return {p["metadata"]["uid"]: asked(p) for p in sandbox.cluster.service_pods(model, sandbox.namespace)}


def wait_for_instances(sandbox: Sandbox, model: str, wanted: list[dict[str, str]]) -> None:
    def all_there() -> bool | Unmet:
        found = list(instances(sandbox, model).values())
        return found == wanted or Unmet(found)

    wait_until(all_there, limits.ROLLOUT, f"the instances of {model} to ask for {wanted}")
    sandbox.ready(model)


def condition(sandbox: Sandbox, model: str, kind: str, status: str, reason: str) -> str:
    found = sandbox.cluster.wait_for_condition("hisvc", model, sandbox.namespace, kind, status=status, reason=reason)
    return found.message


def by_percent(compute: int) -> dict[str, str]:
    """As plans were before slow-downs were counted by pairs."""
    return {RESOURCE_GPU_MEMORY: "4096", RESOURCE_GPU_COMPUTE: str(compute)}


def shared(share: str) -> dict[str, str]:
    return {**by_percent(100), ANNOTATION_GPU_SHARING: terms(share)}


def test_measured_services_share_a_gpu_as_far_as_they_tolerate_each_other(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kind = scene(sandbox, "one", "two", "three", share="0.6", gpus=1)
        for model in ("one", "two"):
            serve(sandbox, model, kind, 4)
            status = sandbox.ready(model)["status"]
            assert list(instances(sandbox, model).values()) == [shared("0.6")]
            on_terms = {"sharing": "Shared", "gpuCompute": 100, "gpuSharing": terms("0.6")}
            assert status["plan"]["counts"] == [{"instanceType": kind, "count": 1, **on_terms}]
        pods = sandbox.bound()
        assert len({(p["spec"]["nodeName"], p["metadata"]["annotations"][ANNOTATION_GPU]) for p in pods}) == 1
        serve(sandbox, "three", kind, 4)
        condition(sandbox, "three", "Feasible", "False", "CapacityTooLow")
        sandbox.kube.delete("inferenceservices", "one", namespace)
        wait_for_instances(sandbox, "three", [shared("0.6")])


def test_copies_share_a_gpu_where_they_are_measured_and_allowed(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kind = scene(sandbox, "one", gpus=1)
        serve(sandbox, "one", kind, 8, ownCopies="Allowed")
        condition(sandbox, "one", "Feasible", "False", "CapacityTooLow")
        message = condition(sandbox, "one", "ProfileReady", "True", "ProfilesFound")
        assert "spec.ownCopies" in message
        copies = [{"model": "one", "batch": 1, "factor": "1.2"}]
        name = f"one-{kind}"[:63].rstrip("-.")
        sandbox.kube.patch("modelprofiles", name, {"spec": {"interference": copies}}, namespace)
        apart = {**by_percent(100), ANNOTATION_GPU_SHARING: terms("0.5", one="1.2")}
        wait_for_instances(sandbox, "one", [apart, apart])
        places = {(p["spec"]["nodeName"], p["metadata"]["annotations"][ANNOTATION_GPU]) for p in sandbox.bound()}
        assert len(places) == 1


def test_an_instance_measured_under_mps_carries_the_limit_of_its_memory(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kind = scene(sandbox, "one", gpus=1)
        name = f"one-{kind}"[:63].rstrip("-.")
        sandbox.kube.patch("modelprofiles", name, {"spec": {"sharingMode": "MPS"}}, namespace)
        serve(sandbox, "one", kind, 4)
        sandbox.ready("one")
        (pod,) = cluster.service_pods("one", namespace)
        assert {"name": ENV_MEMORY_LIMIT, "value": "0=4096M"} in pod["spec"]["containers"][0]["env"]


def test_an_exclusive_service_has_a_gpu_to_itself_and_pays_it_whole(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kind = scene(sandbox, "one", "two")
        serve(sandbox, "one", kind, 6, sharing="Exclusive")
        status = sandbox.ready("one")["status"]
        assert list(instances(sandbox, "one").values()) == [{RESOURCE_GPU: "1"}]
        assert status["plan"]["hourlyCost"] == "1.600", "16 GiB"
        assert status["plan"]["counts"] == [{"instanceType": kind, "count": 1, "sharing": "Exclusive"}]
        serve(sandbox, "two", kind, 4)
        sandbox.ready("two")
        gpus = {(p["spec"]["nodeName"], p["metadata"]["annotations"][ANNOTATION_GPU]) for p in sandbox.bound()}
        assert len(gpus) == 2


def test_a_new_service_on_an_unmeasured_profile_is_exclusive_until_it_is_measured(
    cluster: Cluster, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kind = scene(sandbox, "one", share=None)
        serve(sandbox, "one", kind, 4)
        sandbox.ready("one")
        assert list(instances(sandbox, "one").values()) == [{RESOURCE_GPU: "1"}]
        message = condition(sandbox, "one", "SharingUnmeasured", "True", "PlannedExclusive")
        assert "docs/how-to-measure-sharing.md" in message

        measure(sandbox, "one", kind, "0.5")
        wait_for_instances(sandbox, "one", [shared("0.5")])
        condition(sandbox, "one", "SharingUnmeasured", "False", "SharingMeasured")


def test_a_refit_restarts_instances_only_where_a_figure_grows(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kind = scene(sandbox, "one", gpus=3)
        serve(sandbox, "one", kind, 8)
        sandbox.ready("one")
        before = instances(sandbox, "one")
        inputs = sandbox.kube.get("hisvc", "one", namespace)["status"]["plan"]["inputs"]

        measure(sandbox, "one", kind, "0.2")

        def recorded() -> bool | Unmet:
            plan = sandbox.kube.get("hisvc", "one", namespace)["status"]["plan"]
            return plan["inputs"] != inputs or Unmet(plan)

        wait_until(recorded, limits.REACTION, "the plan of the new measurement")
        sandbox.ready("one")
        assert instances(sandbox, "one") == before == dict.fromkeys(before, shared("0.5"))

        measure(sandbox, "one", kind, "0.8")
        wait_for_instances(sandbox, "one", [shared("0.8"), shared("0.8")])
        assert not instances(sandbox, "one").keys() & before.keys()

        measure(sandbox, "one", kind, "0.2")
        serve(sandbox, "one", kind, 12)
        wait_for_instances(sandbox, "one", [shared("0.2")] * 3)


def deployment_of_before(sandbox: Sandbox, model: str, kind: str, rule: SharingRule) -> Manifest:
    """One instance of a service as an earlier version wrote it. rule: how it made them share."""
    kube = sandbox.kube
    service = InferenceService.model_validate(
        {key: value for key, value in kube.get("hisvc", model, sandbox.namespace).items() if key != "status"}
    )
    types = [InstanceType.model_validate(kube.get("instancetypes", kind))]
    profiles = [ModelProfile.model_validate(raw) for raw in kube.list("modelprofiles", sandbox.namespace)]
    offers = resolve_offers(service, types, profiles, rule)
    assert isinstance(offers, Offers)
    return with_replicas(desired_deployment(service, offers.usable[0]), 1)


@pytest.mark.usefixtures("components_running")
def test_an_upgrade_leaves_pods_alone_that_declare_no_compute(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        cluster.stop_component("operator")
        kind = scene(sandbox, "one", "two", share=None)
        serve(sandbox, "one", kind, 4)
        manifest = deployment_of_before(sandbox, "one", kind, SharingRule(undeclared=[kind]))
        (made,) = cluster.apply(manifest, namespace)
        sandbox.wait_for_bound(1)
        before = instances(sandbox, "one")
        template = cluster.get("deployments", made["metadata"]["name"], namespace)["spec"]["template"]

        cluster.start_component("operator")

        sandbox.ready("one")
        message = condition(sandbox, "one", "SharingUnmeasured", "True", "InstancesUndeclared")
        assert f"one-{kind}"[:40] in message
        assert instances(sandbox, "one") == before
        assert list(before.values()) == [{RESOURCE_GPU_MEMORY: "4096"}]
        assert cluster.get("deployments", made["metadata"]["name"], namespace)["spec"]["template"] == template

        # One that declares does not share with one that does not.
        measure(sandbox, "two", kind, "0.5")
        serve(sandbox, "two", kind, 4)
        sandbox.ready("two")
        assert len({p["spec"]["nodeName"] for p in sandbox.bound()}) == 2
        measure(sandbox, "one", kind, "0.5")
        wait_for_instances(sandbox, "one", [shared("0.5")])


def recorded_by_percent(sandbox: Sandbox, model: str, kind: str) -> Manifest:
    """The plan of one instance as the version before counting by pairs recorded it."""
    kube = sandbox.kube
    service = InferenceService.model_validate(
        {key: value for key, value in kube.get("hisvc", model, sandbox.namespace).items() if key != "status"}
    )
    types = [InstanceType.model_validate(kube.get("instancetypes", kind))]
    profiles = [ModelProfile.model_validate(raw) for raw in kube.list("modelprofiles", sandbox.namespace)]
    settings = PlanSettings(launch_weight=0.000277778)  # of the chart
    problem = build_problem(service, types, profiles, settings=settings, sharing=SharingRule(by_percent=True))
    assert isinstance(problem, Problem)
    counts = ((kind, 1),)
    gpus = RecordedGpus(booked={kind: Percent(40)})
    cost, inputs = cost_of(counts, problem), inputs_digest(problem)
    return record_of_counts(counts, cost, inputs, gpus, qps="6.4", planner="ilp", verdict="as it was", tried=None).raw


@pytest.mark.usefixtures("components_running")
def test_an_upgrade_leaves_pods_alone_that_book_percent_until_their_number_changes(
    cluster: Cluster, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        cluster.stop_component("operator")
        kind = scene(sandbox, "one", "two", gpus=3)
        serve(sandbox, "one", kind, 6)
        (made,) = cluster.apply(deployment_of_before(sandbox, "one", kind, SharingRule(by_percent=True)), namespace)
        sandbox.wait_for_bound(1)
        before, plan = instances(sandbox, "one"), recorded_by_percent(sandbox, "one", kind)
        assert list(before.values()) == [by_percent(40)]
        sandbox.kube.patch("inferenceservices", "one", {"status": {"plan": plan}}, namespace, subresource="status")

        cluster.start_component("operator")

        assert sandbox.ready("one")["status"]["plan"] == plan
        template = cluster.get("deployments", made["metadata"]["name"], namespace)["spec"]["template"]
        assert template == made["spec"]["template"]
        serve(sandbox, "two", kind, 4)
        wait_for_instances(sandbox, "two", [shared("0.5")])
        assert len({p["spec"]["nodeName"] for p in sandbox.bound()}) == 2, "the kinds are on one GPU"
        assert instances(sandbox, "one") == before

        serve(sandbox, "one", kind, 8)
        wait_for_instances(sandbox, "one", [shared("0.5")] * 2)


def test_a_pod_of_before_beside_an_instance_withdraws_the_promise_until_it_is_gone(
    cluster: Cluster, namespace: str
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kind = scene(sandbox, "one", gpus=1)
        serve(sandbox, "one", kind, 4)
        sandbox.ready("one")
        (pod,) = sandbox.bound()
        node, gpu = pod["spec"]["nodeName"], pod["metadata"]["annotations"][ANNOTATION_GPU]
        limits = {"limits": {RESOURCE_GPU_MEMORY: "1024"}}
        spec = {"nodeName": node, "containers": [{"name": "model", "image": "none", "resources": limits}]}
        annotations = {ANNOTATION_GPU: gpu, RESOURCE_GPU_MEMORY: "1024"}
        old = {"metadata": {"name": "old", "namespace": namespace, "annotations": annotations}, "spec": spec}
        with unlocked(cluster):
            cluster.apply({"apiVersion": "v1", "kind": "Pod", **old})

        message = condition(sandbox, "one", "SharingKept", "False", "UndeclaredNeighbour")
        assert f"GPU {gpu} of node {node}" in message
        assert f"{namespace}/old" in message
        assert "not promised" in sandbox.ready("one")["status"]["conditions"][0]["message"]

        cluster.kubectl("delete", "pod", "old", "--namespace", namespace, "--grace-period=0", "--force")
        condition(sandbox, "one", "SharingKept", "True", "WithinBookings")


def test_no_pod_has_terms_before_the_extender_that_leads_counts_by_pairs(own_cluster: Cluster, namespace: str) -> None:
    cluster = own_cluster
    cluster.install_hetserve(ELECTED)
    with Sandbox.cleared(cluster, namespace) as sandbox:

        def signed() -> bool:
            lease = cluster.kube.find("leases", LEASE, SYSTEM_NAMESPACE) or {"metadata": {}}
            return bool((lease["metadata"].get("annotations") or {}).get(ANNOTATION_COUNTS_PAIRS))

        wait_until(signed, limits.REACTION, "the extender to say that it counts by pairs")
        for component in ("operator", "scheduler", "extender"):
            cluster.stop_component(component)
        # The Lease as an older extender holds it: what a newer one wrote there stays, under another holder.
        sandbox.kube.patch("leases", LEASE, {"spec": {"holderIdentity": "older"}}, SYSTEM_NAMESPACE)
        cluster.start_component("operator")
        kind = scene(sandbox, "one")
        serve(sandbox, "one", kind, 4)

        message = condition(sandbox, "one", "Planned", "False", "ComputeNotBooked")
        assert "extender" in message
        assert sandbox.kube.list("deployments", namespace) == []

        cluster.start_component("extender")
        cluster.start_component("scheduler")
        sandbox.ready("one")
        assert list(instances(sandbox, "one").values()) == [shared("0.5")]
