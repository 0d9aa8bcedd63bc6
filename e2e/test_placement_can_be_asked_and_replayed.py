"""Promise: anybody who may list nodes and pods can ask where things are and why; what was decided is decided again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harness import limits
from harness.cluster import Cluster
from harness.commands import hetserve
from harness.components import write_account
from harness.sandbox import GPU_MIB, Sandbox
from harness.waiting import Unmet, wait_until

LOGGED = {"extender": {"placementLog": "16Mi"}}


def asked(cluster: Cluster, *arguments: str, code: int = 0) -> Any:
    """What a command answers as JSON, as the administrator."""
    return json.loads(hetserve(*arguments, "-o", "json", account=cluster.folder.kubeconfig, code=code))


def storm(sandbox: Sandbox) -> None:
    """30 pods of six models for six GPUs, too many; some leave while others wait."""
    sandbox.nodes("small", count=3, gpus=2)
    for number, model in enumerate("abcdef"):
        sandbox.deployment(model, "small", replicas=5, mib=1000 + 1500 * number, model=model)
    wait_until(
        lambda: len(sandbox.bound()) >= 15 or Unmet(len(sandbox.bound())),
        limits.ROLLOUT,
        "half of the pods to be bound",
    )
    gone = sandbox.bound()[::3]
    for pod in gone:
        sandbox.kube.delete("pods", pod["metadata"]["name"], sandbox.namespace, grace=0)
    before = {pod["metadata"]["uid"] for pod in gone}

    def settled() -> bool | Unmet:
        there = {pod["metadata"]["uid"] for pod in sandbox.bound()}
        return (not there & before and len(there) >= 15) or Unmet(len(there))

    wait_until(settled, limits.ROLLOUT, "others to take the places of those that went")


def test_a_storm_is_replayed_to_the_same_decisions_and_a_restart_begins_a_new_log(
    own_cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    own_cluster.install_hetserve(LOGGED)
    url = f"http://127.0.0.1:{own_cluster.ports.extender_probe}/log"
    dump = tmp_path / "dump.json"
    sandbox = Sandbox(own_cluster, namespace)
    storm(sandbox)
    kubeconfig = own_cluster.folder.kubeconfig
    hetserve("placement", "dump", "--log", url, "-o", str(dump), account=kubeconfig)
    first = json.loads(hetserve("placement", "replay", "-o", "json", str(dump)))
    assert first["identical"]
    assert first["decisions"] > 40, "a filter and a bind for each of 20 pods and more"

    otherwise = json.loads(hetserve("placement", "replay", str(dump), "--policy", "BestFit", "-o", "json"))
    assert [course["policy"] for course in otherwise["policies"]] == ["PackedWorstFit", "BestFit"]
    assert all(course["arrived"] >= 20 for course in otherwise["policies"])

    told = json.loads(dump.read_text())
    one = next(record for record in told["log"] if record["call"] == "fix_gpus")
    one["result"]["gpus"] = ["9"]
    dump.write_text(json.dumps(told))
    assert "is decided otherwise" in hetserve("placement", "replay", str(dump), code=1)

    own_cluster.restart_component("extender")
    for pod in sandbox.bound()[::4]:
        sandbox.kube.delete("pods", pod["metadata"]["name"], namespace, grace=0)
    again = wait_for_decisions(url, 4)
    assert again["identical"], "a log that begins in the middle must carry what was there before"


def wait_for_decisions(url: str, count: int) -> Any:
    def enough() -> Any:
        replayed = json.loads(hetserve("placement", "replay", "-o", "json", url))
        return replayed if replayed["decisions"] >= count else Unmet(replayed)

    return wait_until(enough, limits.REACTION, f"{count} decisions in the log")


def test_gpus_and_why_tell_what_the_pods_annotations_say(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    with Sandbox.cleared(cluster, namespace) as sandbox:
        sandbox.nodes("small", count=1, gpus=2)
        sandbox.deployment("fits", "small", replicas=2, mib=12000, model="fits")
        sandbox.wait_for_bound(2, "app=fits")
        sandbox.deployment("large", "small", replicas=1, mib=8000, model="large")
        sandbox.deployment("third", "small", replicas=1, mib=1000, model="fits")
        sandbox.wait_for_refusal("8000 MiB free")
        sandbox.wait_for_refusal("same model on every GPU")

        shown = asked(cluster, "gpus")
        held = {(gpu["node"], gpu["gpu"]): gpu["memoryMiB"] - gpu["freeMiB"] for gpu in shown["gpus"]}
        assert {place: mib for place, mib in held.items() if mib} == cluster.gpu_used()
        assert not [line for line in shown["problems"] if namespace in line]

        pods = {pod["metadata"]["labels"]["app"]: pod["metadata"]["name"] for pod in cluster.pods(namespace)}
        bound = asked(cluster, "why", "-n", namespace, pods["fits"])
        assert (bound["state"], bound["holds"]["gpus"][0]["freeMiB"]) == ("Bound", GPU_MIB - 12000)

        large = asked(cluster, "why", "-n", namespace, pods["large"], code=3)
        texts = [reason["text"] for gpu in large["gpus"] if gpu["fits"] is False for reason in gpu["reasons"]]
        assert f"{8000 - (GPU_MIB - 12000)} MiB short: {GPU_MIB - 12000} MiB free, 8000 wanted" in texts
        assert "8000 MiB free" in large["scheduler"]["message"], "the scheduler's own words are there too"
        assert any(text.startswith("nodeSelector") for text in texts), "nodes of other types are refused by selector"

        third = json.dumps(asked(cluster, "why", "-n", namespace, pods["third"], code=3))
        assert f"model fits is held there by {namespace}/fits-" in third


def test_a_user_who_may_not_list_pods_gets_one_line(cluster: Cluster, namespace: str) -> None:
    account = write_account(cluster.kube, cluster.folder, "default", namespace)
    words = hetserve("gpus", account=account, code=2)
    assert "cannot list resource" in words
    assert words.count("\n") == 1
