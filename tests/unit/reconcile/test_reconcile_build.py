"""Desired Deployments: what hetserve sets, and what it refuses in a user's template."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

import pytest

from hetserve.api import names
from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.planning.offers import Offer, Offers, resolve_offers
from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.cluster.observed import read_service
from hetserve.reconcile.deployments.build import deployment_name, desired_deployment, manifest_digest, with_replicas
from hetserve.reconcile.deployments.diff import RESTARTED_AT, Target, expected_spec
from hetserve.reconcile.deployments.template import TemplateError
from hetserve.reconcile.snapshot import Rendered, ServiceSnapshot
from testing.builders import MEASURED, REMOVED, Json, instance_type, model_profile, service
from testing.scenes import CPU_TYPE, GPU_TYPE, cpu_profile, cpu_type

NOW: Final = datetime(2026, 1, 1, tzinfo=UTC)
MODEL = "spec.template.spec.containers.0"


def parsed(overrides: dict[str, Any] | None = None) -> InferenceService:
    raw = service("rm2", overrides)
    raw["metadata"]["uid"] = "uid-1"
    found = read_service(raw)
    assert isinstance(found, InferenceService)
    return found


def offer(
    kind: str = GPU_TYPE,
    type_overrides: dict[str, Any] | None = None,
    profile_overrides: dict[str, Any] | None = None,
    *,
    undeclared: bool = False,
    asked: dict[str, Any] | None = None,
) -> Offer:
    """asked: overrides of the service."""
    raws = [instance_type(GPU_TYPE, type_overrides) if kind == GPU_TYPE else cpu_type(type_overrides)]
    types = map(InstanceType.model_validate, raws)
    profiles = map(ModelProfile.model_validate, (model_profile(overrides=profile_overrides), cpu_profile()))
    offers = resolve_offers(parsed(asked), types, profiles, SharingRule(undeclared=[GPU_TYPE] if undeclared else []))
    assert isinstance(offers, Offers)
    return offers.usable[0]


def built(overrides: dict[str, Any] | None = None, given: Offer | None = None) -> Json:
    return desired_deployment(parsed(overrides), given or offer())


def annotations_of(manifest: Json) -> dict[str, str]:
    found: dict[str, str] = manifest["spec"]["template"]["metadata"].get("annotations") or {}
    return found


def test_what_is_built_changes_nothing_of_what_it_is_built_from() -> None:
    toleration = {"key": "gpu", "operator": "Exists"}
    of_the_user = {
        "nodeSelector": {"disk": "fast"},
        "tolerations": [toleration],
        "schedulingGates": [{"name": "theirs"}],
    }
    asks = {f"spec.template.spec.{field}": value for field, value in of_the_user.items()}
    asks |= {f"{MODEL}.env": [{"name": "A", "value": "1"}], f"{MODEL}.resources": {"limits": {"example.com/nic": "1"}}}
    asked, given = parsed(asks), offer(type_overrides={"spec.tolerations": [toleration]})
    before = repr((asked, given))
    manifest = desired_deployment(asked, given)
    made = repr(manifest)
    assert with_replicas(manifest, 3) != manifest
    rendered = repr(spec := with_replicas(manifest, 1)["spec"])
    live = {"spec": {"template": {"metadata": {"annotations": {RESTARTED_AT: "now"}}}}}
    snapshot = ServiceSnapshot(None, NOW, rendered={manifest_digest(manifest): Rendered(spec)})
    expected = expected_spec(snapshot, Target(GPU_TYPE, manifest, 2, 2), live)
    assert expected is not None
    assert expected["template"]["metadata"]["annotations"][RESTARTED_AT] == "now"
    assert (repr((asked, given)), repr(manifest), repr(spec)) == (before, made, rendered)


def test_a_gpu_deployment_carries_scheduler_gate_memory_and_device() -> None:
    found = built()
    pod = found["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["schedulerName"] == "hetserve-scheduler"
    assert pod["schedulingGates"] == [{"name": "hetserve.io/queue"}]
    assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": GPU_TYPE}
    expected = {"cpu": "3", "memory": "12Gi", "hetserve.io/gpu-memory": "15360"}
    assert container["resources"] == {"limits": expected, "requests": expected}
    field = {"fieldRef": {"fieldPath": "metadata.annotations['hetserve.io/gpu']"}}
    assert container["env"] == [{"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": field}]
    assert found["spec"]["template"]["metadata"]["annotations"] == {"hetserve.io/gpu-product": "Tesla-T4"}
    assert found["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}
    assert found["spec"]["progressDeadlineSeconds"] == 2147483647
    assert "replicas" not in found["spec"]


def test_a_cpu_deployment_goes_to_the_default_scheduler_without_a_gate() -> None:
    found = built(given=offer(CPU_TYPE))
    pod = found["spec"]["template"]["spec"]
    assert not {"schedulerName", "schedulingGates"} & pod.keys()
    assert "annotations" not in found["spec"]["template"]["metadata"]


def test_a_deployment_is_owned_by_uid_and_selected_by_service_and_type() -> None:
    found = built()
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == ("uid-1", True, True)
    selector = found["spec"]["selector"]["matchLabels"]
    assert selector == {names.LABEL_SERVICE: "rm2", names.LABEL_INSTANCE_TYPE: GPU_TYPE}
    assert found["spec"]["template"]["metadata"]["labels"].items() >= selector.items()
    assert found["metadata"]["labels"][names.LABEL_MODEL] == "rm2"


PER_GIB = {"spec.price.per": "GiB"}
HALF_ON_TERMS = '{"share":"0.5","tolerance":"1.75","factors":{"*":"1"}}'
THREE_GIB = {"spec.gpuMemory": "3Gi"}


def gpus_of(given: Offer) -> dict[str, str]:
    """GPU resources that a template requests; limits are the same."""
    (container,) = built(given=given)["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == container["resources"]["requests"]
    return {key: amount for key, amount in container["resources"]["requests"].items() if key.startswith("hetserve.io")}


def test_a_share_of_a_gpu_is_memory_and_compute_where_the_type_is_priced_per_gib() -> None:
    given = offer(type_overrides=PER_GIB, profile_overrides={**THREE_GIB, **MEASURED})
    assert gpus_of(given) == {"hetserve.io/gpu-memory": "3072", "hetserve.io/gpu-compute": "100"}
    assert annotations_of(built(given=given))[names.ANNOTATION_GPU_SHARING] == HALF_ON_TERMS


MPS = {**THREE_GIB, **MEASURED, "spec.sharingMode": "MPS"}


def limits_of(manifest: Json) -> list[Json]:
    """Memory limits in the environments of its containers."""
    spec = manifest["spec"]["template"]["spec"]
    every = [*spec["containers"], *spec.get("initContainers", [])]
    return [one for container in every for one in container.get("env", []) if one["name"] == names.ENV_MEMORY_LIMIT]


def test_under_mps_the_model_may_allocate_no_more_memory_than_it_asks_for() -> None:
    given = offer(type_overrides=PER_GIB, profile_overrides=MPS)
    service = parsed({"spec.template.spec.initContainers": [{"name": "load", "image": "registry.example/load:1"}]})
    assert limits_of(desired_deployment(service, given)) == [{"name": names.ENV_MEMORY_LIMIT, "value": "0=3072M"}]
    assert limits_of(desired_deployment(service, given, memory_limit=False)) == []


@pytest.mark.parametrize("profile", [{**MPS, "spec.sharingMode": "TimeSlicing"}, THREE_GIB], ids=["slices", "whole"])
def test_no_memory_is_limited_without_mps_or_of_a_whole_gpu(profile: Json) -> None:
    assert limits_of(built(given=offer(type_overrides=PER_GIB, profile_overrides=profile))) == []


def test_a_template_that_limits_the_memory_itself_is_refused_where_hetserve_does() -> None:
    own = {"spec.template.spec.containers.0.env": [{"name": names.ENV_MEMORY_LIMIT, "value": "0=1G"}]}
    with pytest.raises(TemplateError, match=f"{names.ENV_MEMORY_LIMIT}, which hetserve sets .* take it out"):
        desired_deployment(parsed(own), offer(type_overrides=PER_GIB, profile_overrides=MPS))
    sliced = offer(type_overrides=PER_GIB, profile_overrides={**MPS, "spec.sharingMode": "TimeSlicing"})
    assert limits_of(desired_deployment(parsed(own), sliced)) == own["spec.template.spec.containers.0.env"]


def test_copies_may_share_a_gpu_only_where_they_are_allowed_and_measured() -> None:
    itself = {"spec.interference": [{"model": "rm2", "batch": 1, "factor": "1.3"}]}
    allowed = {"spec.ownCopies": "Allowed"}
    for wish, measured, expected in ((allowed, itself, "None"), (allowed, {}, None), ({}, itself, None)):
        profile = {**THREE_GIB, **MEASURED, **measured}
        given = offer(type_overrides=PER_GIB, profile_overrides=profile, asked=wish)
        found = annotations_of(desired_deployment(parsed(wish), given))
        assert found.get(names.ANNOTATION_ANTI_AFFINITY) == expected
        assert ('"rm2":"1.3"' in found[names.ANNOTATION_GPU_SHARING]) is (measured is itself)


def test_an_unmeasured_instance_asks_for_a_whole_gpu_and_one_that_runs_for_its_memory() -> None:
    assert gpus_of(offer(type_overrides=PER_GIB, profile_overrides=THREE_GIB)) == {"hetserve.io/gpu": "1"}
    running = offer(type_overrides=PER_GIB, profile_overrides=THREE_GIB, undeclared=True)
    assert gpus_of(running) == {"hetserve.io/gpu-memory": "3072"}


def test_the_policy_of_placement_may_be_wished() -> None:
    wish = {names.ANNOTATION_PLACEMENT_POLICY: "BestFit"}
    found = built({"spec.template.metadata": {"annotations": wish}})
    assert found["spec"]["template"]["metadata"]["annotations"].items() >= wish.items()


def test_names_are_deterministic_short_enough_and_apart() -> None:
    long = deployment_name("s" * 63, "g4dn.xlarge")
    assert len(long) <= 63
    assert deployment_name("a", "b-c") != deployment_name("a-b", "c")
    assert deployment_name("rm2", GPU_TYPE).startswith("rm2-g4dn-xlarge-")


def test_replicas_do_not_change_the_digest_and_the_annotation_has_both() -> None:
    manifest = built()
    scaled = with_replicas(manifest, 7)
    assert manifest_digest(scaled) == manifest_digest(manifest)
    assert scaled["metadata"]["annotations"][names.ANNOTATION_APPLIED] == f"{manifest_digest(manifest)}/7"
    assert "replicas" not in manifest["spec"]


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "our env": ({f"{MODEL}.env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]}, "NVIDIA_VISIBLE_DEVICES is set"),
    "our env in a container that starts first": (
        {
            "spec.template.spec.initContainers": [
                {"name": "i", "image": "x", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}
            ]
        },
        "initContainers[0].env: NVIDIA_VISIBLE_DEVICES is set",
    ),
    "a GPU asked for by mounting its name": (
        {f"{MODEL}.volumeMounts": [{"name": "v", "mountPath": "//var/run/./nvidia-container-devices/all"}]},
        "containers[0].volumeMounts[0].mountPath: //var/run/./nvidia-container-devices/all asks for a GPU past",
    ),
    "mounts that are an object": ({f"{MODEL}.volumeMounts": {"name": "v"}}, "is not a list of objects"),
    "a GPU asked for by an annotation of CDI": (
        {"spec.template.metadata": {"annotations": {"cdi.k8s.io/gpus": "nvidia.com/gpu=all"}}},
        "annotations: cdi.k8s.io/gpus asks for a device past hetserve",
    ),
    "a GPU of NVIDIA's device plugin": (
        {f"{MODEL}.resources": {"limits": {"nvidia.com/gpu": "1"}}},
        "containers[0].resources.limits: nvidia.com/gpu asks NVIDIA's device plugin",
    ),
    "a part of a GPU of NVIDIA's device plugin": (
        {f"{MODEL}.resources": {"requests": {"nvidia.com/mig-1g.5gb": "1"}}},
        "containers[0].resources.requests: nvidia.com/mig-1g.5gb asks",
    ),
    "resources that the type sets": ({f"{MODEL}.resources": {"limits": {"cpu": "1"}}}, "sets resources.limits.cpu"),
    "our resource": (
        {f"{MODEL}.resources": {"limits": {"hetserve.io/gpu-memory": "1"}}},
        "hetserve.io/gpu-memory is set by hetserve",
    ),
    "compute of a GPU": (
        {f"{MODEL}.resources": {"requests": {"hetserve.io/gpu-compute": "40"}}},
        "containers[0].resources.requests: hetserve.io/gpu-compute is set by hetserve",
    ),
    "several GPUs": (
        {f"{MODEL}.resources": {"limits": {"hetserve.io/gpu": "2"}}},
        "hetserve.io/gpu must not be set: an instance is planned on one GPU",
    ),
    "a wish that the plan does not know": (
        {"spec.template.metadata": {"annotations": {"hetserve.io/anti-affinity": "None"}}},
        "hetserve.io/anti-affinity is set by hetserve",
    ),
    "a scheduler": ({"spec.template.spec.schedulerName": "mine"}, "schedulerName: 'mine' must not be set"),
    "a node": ({"spec.template.spec.nodeName": "n1"}, "nodeName: 'n1' must not be set"),
    "a contrary node selector": (
        {"spec.template.spec.nodeSelector": {"node.kubernetes.io/instance-type": "p3"}},
        "contradicts InstanceType",
    ),
    "one of our labels": ({"spec.template.metadata": {"labels": {"hetserve.io/model": "x"}}}, "hetserve.io/model is"),
    "several containers, none named model": (
        {"spec.template.spec.containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "x"}]},
        "none of a, b is named 'model'",
    ),
    "no containers": ({"spec.template.spec.containers": []}, "containers is empty"),
    "no pod spec": ({"spec.template": {"metadata": {}}}, "spec.template.spec is missing"),
    "containers that are no list": (
        {"spec.template.spec.containers": {"name": "a"}},
        "{'name': 'a'} is not a list of objects",
    ),
    "a container that is no object": ({"spec.template.spec.containers": ["a"]}, "containers[0]: 'a' is not an object"),
    "two containers named model": (
        {"spec.template.spec.containers": [{"name": "model", "image": "x"}, {"name": "model", "image": "y"}]},
        "2 containers are named 'model'",
    ),
    "resources that are a text": ({f"{MODEL}.resources": "big"}, "containers[0].resources: 'big' is not an object"),
    "limits that are a list": ({f"{MODEL}.resources": {"limits": ["a"]}}, "resources.limits: ['a'] is not an object"),
    "env that is an object": ({f"{MODEL}.env": {"A": "1"}}, "containers[0].env: {'A': '1'} is not a list of objects"),
    "env that lists texts": ({f"{MODEL}.env": ["A=1"]}, "containers[0].env[0]: 'A=1' is not an object"),
    "gates that are a text": ({"spec.template.spec.schedulingGates": "x"}, "schedulingGates: 'x' is not a list"),
    "a node selector that is a list": ({"spec.template.spec.nodeSelector": ["a"]}, "nodeSelector: ['a'] is not an obj"),
    "tolerations that are an object": ({"spec.template.spec.tolerations": {"key": "a"}}, "is not a list of objects"),
    "a container without name that sets our cpu": (
        {"spec.template.spec.containers": [{"image": "x", "resources": {"limits": {"cpu": "1"}}}]},
        "container None sets resources.limits.cpu",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_template_that_contradicts_us_is_refused_with_the_field(what: str) -> None:
    overrides, words = REFUSED[what]
    with pytest.raises(TemplateError, match=r"spec\.template") as caught:
        built(overrides)
    assert words in str(caught.value)


NULLS: dict[str, dict[str, Any]] = {
    "metadata": {"spec.template.metadata": None},
    "labels": {"spec.template.metadata": {"labels": None}},
    "env": {f"{MODEL}.env": None},
    "resources": {f"{MODEL}.resources": None},
    "limits": {f"{MODEL}.resources": {"limits": None}},
    "one limit": {f"{MODEL}.resources": {"limits": {"cpu": None}}},
    "node selector": {"spec.template.spec.nodeSelector": None},
    "gates": {"spec.template.spec.schedulingGates": None},
    "tolerations": {"spec.template.spec.tolerations": None},
    "init containers": {"spec.template.spec.initContainers": None},
    "volume mounts": {f"{MODEL}.volumeMounts": None},
    "scheduler": {"spec.template.spec.schedulerName": None},
}


@pytest.mark.parametrize("what", NULLS)
def test_a_null_in_the_template_is_as_if_it_were_absent(what: str) -> None:
    assert built(NULLS[what]) == built()


def test_users_own_gates_env_mounts_resources_labels_and_tolerations_stay() -> None:
    mounts = [{"name": "v", "mountPath": "/var/run/other"}]
    overrides = {
        f"{MODEL}.env": [{"name": "A", "value": "1"}],
        f"{MODEL}.volumeMounts": mounts,
        f"{MODEL}.resources": {"limits": {"nvidia.com/hostdev": "1"}},
        "spec.template.spec.schedulingGates": [{"name": "user/gate"}],
        "spec.template.spec.tolerations": [{"key": "a", "operator": "Exists"}],
        "spec.template.metadata": {"labels": {"team": "x"}},
    }
    found = built(overrides, offer(type_overrides={"spec.tolerations": [{"key": "gpu", "operator": "Exists"}]}))
    template = found["spec"]["template"]
    assert [e["name"] for e in template["spec"]["containers"][0]["env"]] == ["A", "NVIDIA_VISIBLE_DEVICES"]
    assert template["spec"]["containers"][0]["volumeMounts"] == mounts
    assert template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/hostdev"] == "1"
    assert [g["name"] for g in template["spec"]["schedulingGates"]] == ["user/gate", "hetserve.io/queue"]
    assert [t["key"] for t in template["spec"]["tolerations"]] == ["a", "gpu"]
    assert template["metadata"]["labels"]["team"] == "x"


def test_the_container_named_model_is_the_one_among_several() -> None:
    pair = [{"name": "proxy", "image": "p"}, {"name": "model", "image": "m"}]
    found = built({"spec.template.spec.containers": pair})
    proxy, model = found["spec"]["template"]["spec"]["containers"]
    assert "resources" not in proxy
    assert model["resources"]["limits"]["cpu"] == "3"


SEVERAL: Json = {
    "spec.template.spec": {
        "containers": [
            {"name": "proxy", "image": "p", "envFrom": [{"configMapRef": {"name": "all-gpus"}}]},
            {"name": "model", "image": "m", "envFrom": [{"configMapRef": {"name": "all-gpus"}}]},
        ],
        "initContainers": [
            {"name": "fetch", "image": "f", "env": [{"name": "A", "value": "1"}]},
            {"name": "sidecar", "image": "s", "restartPolicy": "Always"},
        ],
    }
}


def devices(found: Json) -> dict[str, Json]:
    """What each container has of the variable that shows it GPUs: the last of that name is the one that counts."""
    pod = found["spec"]["template"]["spec"]
    containers = [*pod["containers"], *pod.get("initContainers", [])]
    named = {c["name"]: [e for e in c["env"] if e["name"] == "NVIDIA_VISIBLE_DEVICES"] for c in containers}
    return {name: entry for name, (entry,) in named.items()}


def test_only_the_model_sees_a_gpu_whatever_envfrom_and_images_say() -> None:
    found = devices(built(SEVERAL))
    assert found.pop("model")["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.annotations['hetserve.io/gpu']"
    assert {name: entry["value"] for name, entry in found.items()} == dict.fromkeys(
        ["proxy", "fetch", "sidecar"], "void"
    )


def test_on_a_type_without_a_gpu_no_container_sees_one() -> None:
    found = devices(built(SEVERAL, offer(CPU_TYPE)))
    assert {entry["value"] for entry in found.values()} == {"void"}
    assert found.keys() == {"proxy", "model", "fetch", "sidecar"}


def test_a_type_without_resources_leaves_the_users_resources_alone() -> None:
    given = offer(CPU_TYPE, {"spec.resources": REMOVED})
    found = built({f"{MODEL}.resources": {"limits": {"cpu": "1"}}}, given)
    assert found["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"cpu": "1"}}
    assert isinstance(given.type, InstanceType)
