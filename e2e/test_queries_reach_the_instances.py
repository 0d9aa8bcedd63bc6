"""Promise: who applies a service with spec.dispatch can ask it; no rollout, scale-in or flapping costs an answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import limits
from harness.cluster import Cluster
from harness.kube import Manifest
from harness.kubelet import IMAGE, UNREADY
from harness.queries import playing
from harness.sandbox import Sandbox
from harness.serving import Serving, condition, dispatched, serving, write_profiles
from harness.waiting import Unmet, wait_until

RATE = 20
"""Queries/s that are played."""
SECONDS = 0.05
"""Of a query at an instance: it has one in flight most of the time."""
SOME = 40
"""Queries between two events."""


@pytest.fixture(scope="module")
def wire(cluster: Cluster) -> Iterator[Serving]:
    with serving(cluster) as made:
        yield made


@pytest.fixture
def sandbox(cluster: Cluster, wire: Serving, namespace: str) -> Iterator[Sandbox]:
    with Sandbox.cleared(cluster, namespace) as made:
        yield made


def serve(sandbox: Sandbox, wire: Serving, folder: Path, qps: int, image: str = IMAGE) -> str:
    """Service `svc` of model `m`, ready: an instance carries 20 queries/s, planned for 16. Returns its type."""
    sandbox.nodes("gpu", count=4, gpus=1)
    kind = sandbox.instance_type("gpu")
    sandbox.profile("m", kind, seconds=SECONDS)
    overrides = dispatched(profile=write_profiles(sandbox, folder), image=image)
    sandbox.service("svc", "m", [kind], {**overrides, "spec.load": {"expectedQPS": qps}})
    sandbox.ready("svc")
    wire.served(sandbox.namespace, "svc", "m")
    return kind


def images(sandbox: Sandbox) -> dict[str, str]:
    """Image by pod of the service, those that end too."""
    pods = sandbox.cluster.service_pods("svc", sandbox.namespace)
    return {pod["metadata"]["name"]: pod["spec"]["containers"][0]["image"] for pod in pods}


def test_a_query_is_answered_by_an_instance_of_its_service(cluster: Cluster, wire: Serving, sandbox: Sandbox) -> None:
    namespace = sandbox.namespace
    sandbox.nodes("gpu", count=2, gpus=1)
    kind = sandbox.instance_type("gpu")
    sandbox.profile("m", kind)
    sandbox.service("svc", "m", [kind], dispatched())
    sandbox.ready("svc")
    assert condition(cluster.get("hisvc", "svc", namespace), "Serving") == "True QueriesServed"
    wire.served(namespace, "svc", "m")
    said = asked_by_curl(wire, f"svc.{namespace}", "m")
    assert said["outputs"] == [{"name": "x", "shape": [3], "datatype": "INT64", "data": [1, 2, 3]}]
    assert said["instance"] in wire.workers(namespace, "svc")
    other = wire.ask("elsewhere", "svc", "m")
    assert other.status_code == 404
    assert "elsewhere/svc" in other.json()["error"]


def asked_by_curl(wire: Serving, host: str, model: str) -> Manifest:
    """What curl gets for a query to a service's address, with the router's in place of the cluster's DNS."""
    query = {"inputs": [{"name": "x", "shape": [3], "datatype": "INT64", "data": [1, 2, 3]}]}
    done = subprocess.run(
        [
            *("curl", "--silent", "--show-error", "--fail-with-body", "--noproxy", "*"),
            *("--connect-to", f"::{wire.url.removeprefix('http://')}", "--json", json.dumps(query)),
            *("--write-out", '\n{"instance": "%header{hetserve-instance}"}', f"http://{host}/v2/models/{model}/infer"),
        ],
        capture_output=True,
        text=True,
        timeout=limits.ANSWER,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    answer, _, head = done.stdout.rpartition("\n")
    return {**json.loads(answer), **json.loads(head)}


def test_a_rollout_under_load_costs_no_answer(wire: Serving, sandbox: Sandbox, tmp_path: Path) -> None:
    serve(sandbox, wire, tmp_path, qps=30, image=f"{IMAGE}:1")
    before = images(sandbox)
    assert len(before) == 2
    newer = dispatched(profile=write_profiles(sandbox, tmp_path), image=f"{IMAGE}:2")
    with playing(wire, sandbox.namespace, "svc", "m", RATE) as player:
        player.more(SOME)
        sandbox.edit("svc", {"spec": {"template": newer["spec.template"]}})
        wait_until(
            lambda: set(images(sandbox).values()) == {f"{IMAGE}:2"} or Unmet(images(sandbox)),
            limits.ROLLOUT,
            "the new image alone",
        )
        player.more(SOME)
    player.assert_all_answered()
    assert player.instances.keys() > set(before)


def test_scale_in_under_load_costs_no_answer(wire: Serving, sandbox: Sandbox, tmp_path: Path) -> None:
    serve(sandbox, wire, tmp_path, qps=60)
    before = images(sandbox)
    assert len(before) == 4
    with playing(wire, sandbox.namespace, "svc", "m", RATE, burst=4) as player:
        player.more(SOME)
        sandbox.edit("svc", {"spec": {"load": {"expectedQPS": 30}}})
        wait_until(lambda: len(images(sandbox)) == 2 or Unmet(images(sandbox)), limits.ROLLOUT, "two instances fewer")
        player.more(SOME)
    player.assert_all_answered()
    assert len(player.instances) == 4


def test_an_instance_that_flaps_costs_no_answer(wire: Serving, sandbox: Sandbox, tmp_path: Path) -> None:
    serve(sandbox, wire, tmp_path, qps=30)
    flapping = min(images(sandbox))

    def become(ready: bool) -> None:
        mark = {"metadata": {"annotations": {UNREADY: None if ready else "true"}}}
        sandbox.kube.patch("pods", flapping, mark, sandbox.namespace)
        served = player.instances[flapping]
        if ready:
            wait_until(lambda: player.instances[flapping] > served, limits.REACTION, "it to get queries again")
        else:
            player.more(SOME // 2)

    with playing(wire, sandbox.namespace, "svc", "m", RATE) as player:
        player.more(SOME)
        for _ in range(5):
            become(ready=False)
            become(ready=True)
    player.assert_all_answered()
    assert set(player.instances) == set(images(sandbox))
