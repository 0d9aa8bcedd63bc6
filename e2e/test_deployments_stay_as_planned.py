"""Promise: whatever happens to our Deployments, or to the operator, they come back to the plan."""

from __future__ import annotations

from harness import limits
from harness.cluster import Cluster
from harness.kube import Manifest
from harness.sandbox import Sandbox
from harness.waiting import Unmet, wait_until


def full_gpus(sandbox: Sandbox, memory: str = "4Gi") -> str:
    """A service with one instance on every one of four GPUs."""
    sandbox.nodes("gpu", count=2, gpus=2)
    kind = sandbox.instance_type("gpu")
    sandbox.profile("m", kind, overrides={"spec.gpuMemory": memory})
    sandbox.service("svc", "m", [kind], {"spec.load": {"expectedQPS": 30}})
    sandbox.ready("svc")
    assert sandbox.counts("svc") == {kind: 4}
    return kind


def deployment(sandbox: Sandbox) -> Manifest:
    (found,) = sandbox.kube.list("deployments", sandbox.namespace)
    return found


def containers_of(manifest: Manifest) -> dict[str, list[str]]:
    """Container names with the names of their environment."""
    template = manifest["spec"]["template"]["spec"]
    return {c["name"]: [e["name"] for e in c.get("env", [])] for c in template["containers"]}


def test_a_changed_template_rolls_out_although_every_gpu_holds_an_instance(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        full_gpus(sandbox, memory="16Gi")
        before = {pod["metadata"]["uid"] for pod in sandbox.bound()}

        template = sandbox.kube.get("inferenceservices", "svc", namespace)["spec"]["template"]
        template["spec"]["containers"][0]["image"] = "registry.example/model-server:2.0"
        sandbox.edit("svc", {"spec": {"template": template}})

        sandbox.ready("svc")
        now = sandbox.wait_for_bound(4)
        assert {pod["spec"]["containers"][0]["image"] for pod in now} == {"registry.example/model-server:2.0"}
        assert not before & {pod["metadata"]["uid"] for pod in now}


def test_a_foreign_sidecar_and_env_are_removed(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        full_gpus(sandbox)
        ours = containers_of(deployment(sandbox))
        name = deployment(sandbox)["metadata"]["name"]

        sidecar = {"name": "miner", "image": "registry.example/miner:1"}
        env = {"name": "EXTRA", "value": "1"}
        cluster.kube.patch(
            "deployments",
            name,
            [
                {"op": "add", "path": "/spec/template/spec/containers/-", "value": sidecar},
                {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": env},
            ],
            namespace,
        )

        def clean() -> bool | Unmet:
            seen = containers_of(deployment(sandbox))
            return seen == ours or Unmet(seen)

        wait_until(clean, limits.REACTION, "the sidecar and the env to be removed")
        sandbox.ready("svc")


def test_edited_replicas_and_a_deleted_deployment_are_repaired(cluster: Cluster, namespace: str) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        full_gpus(sandbox)
        name = deployment(sandbox)["metadata"]["name"]

        cluster.kubectl("scale", "deployment", name, "--replicas=1", "--namespace", namespace)

        def four() -> bool | Unmet:
            found = cluster.kube.find("deployments", name, namespace)
            return (found is not None and found["spec"]["replicas"] == 4) or Unmet(found and found["spec"]["replicas"])

        wait_until(four, limits.REACTION, "the replicas to be 4 again")
        sandbox.ready("svc")

        cluster.kube.delete("deployments", name, namespace)
        wait_until(four, limits.REACTION, "the Deployment to be made again")
        sandbox.ready("svc")
        sandbox.wait_for_bound(4)


def test_what_happened_while_the_operator_was_down_is_made_up_for(
    cluster: Cluster, namespace: str, components_running: None
) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        kind = full_gpus(sandbox)
        name = deployment(sandbox)["metadata"]["name"]

        cluster.stop_component("operator")
        cluster.kubectl("scale", "deployment", name, "--replicas=0", "--namespace", namespace)
        sandbox.edit("svc", {"spec": {"load": {"expectedQPS": 14}}})
        cluster.start_component("operator")

        sandbox.ready("svc")
        assert sandbox.counts("svc") == {kind: 2}
        sandbox.wait_for_bound(2)
