"""`hetserve queue` shows what the rounds would do; `hetserve queue release` lifts our gate and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.api import names
from hetserve.cli.app import app
from hetserve.cli.cluster.snapshot import written_time
from hetserve_shell.kube.client import ApiStatusError
from installation_objects import settings_object
from testing.cluster import gpu_node, gpu_pod
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
OURS = names.QUEUE_GATE
TAKEN_AT = 1767225700.0
"""100 s after the pods of `gpu_pod` were created."""


def shown(*objects: Json, arguments: tuple[str, ...] = ("-o", "json")) -> Result:
    items = [{"kind": "Pod" if "containers" in one["spec"] else "Node", **one} for one in objects]
    stdin = json.dumps({"kind": "List", "takenAt": written_time(TAKEN_AT), "items": items})
    return CliRunner().invoke(app, ["queue", "--from", "-", *arguments], input=stdin)


def release(api: HttpFace, folder: Path, *arguments: str, stdin: str = "") -> Result:
    words = ["queue", "release", "--kubeconfig", str(api.kubeconfig(folder)), *arguments]
    return CliRunner().invoke(app, words, input=stdin)


def gates(pod: Json) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]


def patches(api: HttpFace) -> list[str]:
    return [path.rsplit("/", 1)[-1] for method, path, _ in api.requests if method == "PATCH"]


# What is shown


def test_queues_are_shown_with_their_shapes_waits_shares_and_who_is_next() -> None:
    pods = [gpu_pod(f"a{n}", model="a", memory_mib=1000, gates=(OURS,)) for n in range(3)]
    pods.append(gpu_pod("b0", model="b", memory_mib=2000, gates=(OURS,), created="2026-01-01T00:01:30Z"))
    pods.append(gpu_pod("out", model="b"))
    document = json.loads(shown(gpu_node(), *pods).stdout)
    assert (document["waiting"], document["inHand"]) == (4, 1)
    a, b = document["queues"]
    assert (a["length"], a["medianWaitSeconds"], a["weight"]) == (3, 100.0, 303.0)
    (shape,) = a["shapes"]
    assert shape == {
        "memoryMiB": 1000,
        "computePercent": None,
        "namespace": "default",
        "model": "a",
        "gpus": 1,
        "pods": 3,
    }
    assert (b["length"], b["medianWaitSeconds"], b["share"]) == (1, 10.0, round(11 / 314, 6))
    assert document["next"][0] == "default/a0"
    assert [pod["turn"] for queue in document["queues"] for pod in queue["pods"]] != [None] * 4
    assert document["releasesWithin"] == {"0": 2 * 4}


def test_pods_that_wait_for_others_are_named_with_their_gates() -> None:
    document = json.loads(shown(gpu_node(), gpu_pod("k", gates=("kueue.x-k8s.io/admission", OURS))).stdout)
    assert document["heldByOthers"] == [
        {"namespace": "default", "name": "k", "gates": ["kueue.x-k8s.io/admission", OURS]}
    ]
    assert document["queues"] == []


def test_the_picture_is_one_table_and_wide_lists_the_pods() -> None:
    pods = [gpu_pod("p0", gates=(OURS,)), gpu_pod("w", memory_mib=0, gpus=2, model=None, gates=(OURS,))]
    text = shown(gpu_node(), *pods, arguments=()).stdout
    assert "2 pods in 2 queues (k = 4)" in text
    assert "1: 4096 MiB of default/resnet" in text
    assert "1: 2 x whole GPU" in text
    assert "default/p0" in text
    wide = shown(gpu_node(), *pods, arguments=("-o", "wide")).stdout
    assert "turn 1" in wide
    assert "100 s" in wide


@pytest.mark.parametrize(
    ("pods", "words"), [(0, "0 pods in 0 queues"), (1, "1 pod in 1 queue"), (2, "2 pods in 1 queue")]
)
def test_one_is_counted_as_one(pods: int, words: str) -> None:
    text = shown(gpu_node(), *(gpu_pod(f"p{n}", gates=(OURS,)) for n in range(pods)), arguments=()).stdout
    assert f"{words} (k = 4)" in text


def test_an_empty_gate_says_that_nobody_waits() -> None:
    assert "nobody waits" in shown(gpu_node(), arguments=()).stdout


def test_k_beta_and_weights_are_those_of_the_installation_or_as_given(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node(), gpu_pod("p0", gates=(OURS,))) as api:
        api.api.add(settings_object("extender", "queue: {queues: auto, beta: 3, weights: equal}"))
        at = ["queue", "--kubeconfig", str(api.kubeconfig(tmp_path)), "-o", "json"]
        installed = json.loads(CliRunner().invoke(app, at).stdout)
        given = json.loads(CliRunner().invoke(app, [*at, "--queues", "2", "--beta", "5"]).stdout)
    assert installed["settings"] == {"queues": "auto", "weights": "equal", "beta": 3}
    assert given["settings"] == {"queues": 2, "weights": "equal", "beta": 5}


def test_settings_mean_here_what_they_mean_to_the_extender(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node(), gpu_pod("p0", gates=(OURS,))) as api:
        at = ["queue", "--kubeconfig", str(api.kubeconfig(tmp_path)), "-o", "json"]
        api.api.add(settings_object("extender", "queue: {beta: 0o14}"))
        octal = json.loads(CliRunner().invoke(app, at).stdout)
        api.api.add(settings_object("extender", "queue: {beta: 3}\nqueue: {beta: 4}"))
        refused = CliRunner().invoke(app, at)
    assert octal["settings"]["beta"] == 12
    assert "key 'queue' is there twice" in refused.stderr.replace("\\n", " ")
    assert "its defaults are taken" in refused.stderr


@pytest.mark.parametrize("k", ["0", "65", "many"])
def test_a_k_that_the_extender_would_not_take_is_refused(k: str) -> None:
    result = shown(gpu_node(), arguments=("--queues", k))
    assert result.exit_code == 2
    assert f"{k!r} is not a number of queues from 1 to 64" in result.stderr


# Releasing by hand


def test_a_pod_is_released_by_name_in_the_namespace_of_the_context(tmp_path: Path) -> None:
    pod = gpu_pod("p0", namespace="team", gates=(OURS,))
    with HttpFace.serving(pod) as api:
        result = release(api, tmp_path, "p0")
    assert (result.exit_code, result.stdout) == (0, "pod team/p0 released\n")
    assert gates(api.api.pod("p0", "team")) == []


@pytest.mark.parametrize("held", [("kueue.x-k8s.io/admission", OURS), (OURS, "kueue.x-k8s.io/admission")])
def test_gates_of_others_stay(tmp_path: Path, held: tuple[str, ...]) -> None:
    pod = gpu_pod("p0", gates=held)
    with HttpFace.serving(pod) as api:
        result = release(api, tmp_path, "default/p0")
    assert gates(api.api.pod("p0")) == ["kueue.x-k8s.io/admission"]
    assert "released, still held by kueue.x-k8s.io/admission" in result.stdout


def test_all_asks_first_and_does_nothing_on_no(tmp_path: Path) -> None:
    pods = [gpu_pod(f"p{n}", gates=(OURS,)) for n in range(3)]
    with HttpFace.serving(*pods) as api:
        result = release(api, tmp_path, "--all", stdin="n\n")
        assert (result.exit_code, patches(api)) == (1, [])
        assert "Release all 3 pods at the gate in all namespaces?" in result.stderr
        unasked = release(api, tmp_path, "--all")  # no terminal, no answer: no
        assert (unasked.exit_code, patches(api)) == (1, [])


def test_all_with_yes_releases_every_pod_at_the_gate_and_no_other(tmp_path: Path) -> None:
    pods = [gpu_pod(f"p{n}", gates=(OURS,)) for n in range(20)]
    others = [gpu_pod("other", gates=("x",)), gpu_pod("free")]
    with HttpFace.serving(*pods, *others) as api:
        result = release(api, tmp_path, "--all", "--yes")
        assert sorted(patches(api)) == sorted(f"p{n}" for n in range(20))
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == "20 released"
    assert not any(gates(api.api.pod(f"p{n}")) for n in range(20))
    assert gates(api.api.pod("other")) == ["x"]


def test_all_of_a_namespace_leaves_the_others_alone(tmp_path: Path) -> None:
    mine, other = gpu_pod("p0", namespace="team", gates=(OURS,)), gpu_pod("p1", gates=(OURS,))
    with HttpFace.serving(mine, other) as api:
        result = release(api, tmp_path, "--all", "-n", "team", "--yes")
    assert result.stdout.splitlines()[-1] == "1 released"
    assert (gates(api.api.pod("p0", "team")), gates(api.api.pod("p1"))) == ([], [OURS])


def test_nothing_to_release_is_no_failure(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_pod("free")) as api:
        every, one = release(api, tmp_path, "--all"), release(api, tmp_path, "default/free")
    assert (every.exit_code, every.stdout) == (0, "0 released\n")
    assert (one.exit_code, one.stdout) == (0, f"pod default/free is not held by {OURS}\n")


def test_gates_that_change_meanwhile_are_looked_at_again(tmp_path: Path) -> None:
    pod = gpu_pod("p0", gates=("x", OURS))
    with HttpFace.serving(pod) as api:
        gate = [{"name": OURS}]
        api.api.before.append(lambda *_: api.api.pod("p0")["spec"].update(schedulingGates=gate))
        result = release(api, tmp_path, "default/p0")
    assert (result.exit_code, gates(api.api.pod("p0"))) == (0, [])


def test_a_pod_created_again_under_its_name_is_left_alone(tmp_path: Path) -> None:
    pod = gpu_pod("p0", gates=(OURS,))
    with HttpFace.serving(pod) as api:
        api.api.before.append(lambda *_: api.api.pod("p0")["metadata"].update(uid="another"))
        result = release(api, tmp_path, "default/p0")
    assert (result.exit_code, gates(api.api.pod("p0"))) == (0, [OURS])


def test_what_the_api_server_refuses_is_said_and_exits_with_1(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_pod("p0", gates=(OURS,)), gpu_pod("p1", gates=(OURS,))) as api:

        def forbid(*_: object) -> None:
            raise ApiStatusError(403, "Forbidden", "refused with 403")

        api.api.before.append(forbid)
        result = release(api, tmp_path, "--all", "--yes")
    assert result.exit_code == 1
    assert "refused with 403" in result.stderr


def test_a_pod_that_is_not_there_or_a_cluster_out_of_reach_exits_with_2(tmp_path: Path) -> None:
    with HttpFace.serving() as api:
        missing = release(api, tmp_path, "p9")
    gone = release(api, tmp_path, "p9")
    assert (missing.exit_code, gone.exit_code) == (2, 2)
    assert "no pod p9 in namespace team" in missing.stderr
    assert "cannot be reached" in gone.stderr


@pytest.mark.parametrize("arguments", [(), ("p0", "--all")], ids=["neither", "both"])
def test_pods_or_all_and_not_both(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with HttpFace.serving() as api:
        assert release(api, tmp_path, *arguments).exit_code == 2


def test_the_kubeconfig_may_stand_before_release_too(tmp_path: Path) -> None:
    pod = gpu_pod("p0", namespace="team", gates=(OURS,))
    with HttpFace.serving(pod) as api:
        words = ["queue", "--kubeconfig", str(api.kubeconfig(tmp_path)), "release", "p0"]
        assert CliRunner().invoke(app, words, env={"KUBECONFIG": "/nowhere"}).exit_code == 0
    assert gates(api.api.pod("p0", "team")) == []


def test_nothing_is_released_in_a_file(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["queue", "--from", "dump.json", "release", "p0"])
    assert (result.exit_code, "nothing can be released" in result.stderr) == (2, True)


@pytest.mark.parametrize("option", [("-o", "json"), ("--queues", "3"), ("--beta", "2")], ids=lambda option: option[0])
def test_what_only_shows_is_refused_before_release(option: tuple[str, str]) -> None:
    result = CliRunner().invoke(app, ["queue", *option, "release", "p0"])
    assert (result.exit_code, "release takes none" in result.stderr) == (2, True)
