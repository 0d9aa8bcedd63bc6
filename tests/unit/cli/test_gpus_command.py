from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.api import names
from hetserve.cli.app import app
from hetserve.cli.cluster.client import ClusterClient, ClusterError
from hetserve.cli.placement.placed import follow
from testing.cluster import gpu_node, gpu_pod, plugin_pod
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
BOUND = gpu_pod("a", memory_mib=6144, model="bert", node="n0", gpu="0")
BESIDE = gpu_pod("b", memory_mib=3072, model="resnet", node="n0", gpu="0")
TOO_MUCH = gpu_pod("c", memory_mib=30000, model="llama", node="n0", gpu="0")
WHOLE = gpu_pod("w", memory_mib=0, gpus=1, model="huge", node="n0", gpu="1")
WHOLE["metadata"]["annotations"]["hetserve.io/gpu-memory"] = "32768"
LOST = gpu_pod("lost", node="gone", gpu="3")
SICK = gpu_node(
    "n0",
    listed=[
        {"uuid": "0", "product": "V100", "memoryMiB": 32768},
        {"uuid": "1", "product": "T4", "memoryMiB": 16384, "healthy": False},
    ],
)


def run(*arguments: str, pods: list[Json] | None = None, node: Json | None = None) -> Result:
    items = [{"kind": "Node", **(node or gpu_node())}, *({"kind": "Pod", **pod} for pod in pods or [])]
    stdin = json.dumps({"kind": "List", "items": items})
    return CliRunner().invoke(app, ["gpus", "--from", "-", *arguments], input=stdin)


def document(*pods: Json, node: Json | None = None) -> Any:
    result = run("-o", "json", pods=list(pods), node=node)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_every_gpu_is_listed_with_its_pods_and_what_is_free() -> None:
    shown = document(BOUND, BESIDE)
    assert [(gpu["gpu"], gpu["freeMiB"], [pod["name"] for pod in gpu["pods"]]) for gpu in shown["gpus"]] == [
        ("0", 32768 - 6144 - 3072, ["a", "b"]),
        ("1", 32768, []),
    ]
    assert shown["totals"]["memoryMiB"] == 65536
    assert shown["totals"]["freeMiB"] == 65536 - 9216
    assert (shown["totals"]["pods"], shown["totals"]["idleGpus"], shown["problems"]) == (2, 1, [])


def test_free_memory_on_gpus_too_full_for_the_median_pod_is_fragmented() -> None:
    big = gpu_pod("big", memory_mib=30000, model="m", node="n0", gpu="0")
    shown = document(big, gpu_pod("too", memory_mib=30000, model="m", node="n0", gpu="1"))
    assert shown["totals"]["fragmentation"] == 1.0
    assert shown["totals"]["largestFreeMiB"] == 2768
    half = [gpu_pod(gpu, memory_mib=16384, model=gpu, node="n0", gpu=gpu) for gpu in "01"]
    assert document(*half)["totals"]["fragmentation"] == 0.0, "as much is free as the median pod wants: it has room"
    assert document()["totals"]["fragmentation"] is None, "nobody holds anything: no size to judge by"


def test_a_bar_has_a_letter_per_model_in_proportion_and_dots_for_what_is_free() -> None:
    text = run(pods=[BOUND, BESIDE]).stdout
    first = next(line for line in text.splitlines() if " 0 " in line)
    assert first.count("A") - first.count("A:") == round(26 * 6144 / 32768)
    assert first.count("B") - first.count("B:") == round(26 * 9216 / 32768) - round(26 * 6144 / 32768)
    assert "A bert   B resnet" in text
    assert "·" * 26 in text.splitlines()[-1]


def test_two_tenants_models_of_one_name_do_not_look_like_one() -> None:
    theirs = gpu_pod("t", namespace="team", memory_mib=3072, model="bert", node="n0", gpu="0")
    text = run(pods=[BOUND, theirs, BESIDE]).stdout
    assert "A default/bert   B resnet   C team/bert" in text
    assert "A:6144 B:3072 C:3072" in text


@pytest.mark.parametrize(
    ("stranger", "told"),
    [
        (plugin_pod(), "pod default/nvidia holds GPUs of node n0 through nvidia.com/gpu, and nobody knows which"),
        (gpu_pod("odd", node="n0", memory_mib="1e9999999"), "; node n0 takes no new pods while it is there"),
    ],
    ids=["plugin", "unread"],
)
def test_a_node_that_is_closed_is_drawn_as_such_and_the_pod_is_named(stranger: Json, told: str) -> None:
    shown = document(BOUND, stranger)
    assert [gpu["open"] for gpu in shown["gpus"]] == [False, False]
    assert [gpu["freeMiB"] for gpu in shown["gpus"]] == [32768 - 6144, 32768], "what is held is shown all the same"
    assert shown["totals"]["freeMiB"] == shown["totals"]["largestFreeMiB"] == 0
    assert any(told in problem for problem in shown["problems"])
    text = run(pods=[BOUND, stranger]).stdout
    assert "?" * 26 in text
    assert "·" not in text
    assert " ".join(told.split()) in " ".join(text.split())
    assert all(gpu["open"] for gpu in document(BOUND)["gpus"])


def test_over_use_and_unknown_gpus_are_drawn_and_listed() -> None:
    text = run(pods=[BOUND, TOO_MUCH, LOST]).stdout
    assert "!" in text
    assert "-3376" in text
    assert "problem   GPU 0 of node n0: 36144 MiB are held of 32768" in text
    assert "but node gone is not known" in text


def test_a_whole_gpu_and_an_unhealthy_one_are_distinguished() -> None:
    text = run(pods=[WHOLE], node=SICK).stdout
    line = next(line for line in text.splitlines() if "T4" in line)
    assert "T4 unhealthy" in line
    assert "A:whole" in line
    assert "is unhealthy and holds 1 pods" in text


def test_wide_names_the_pods() -> None:
    text = run("-o", "wide", pods=[BOUND, BESIDE]).stdout
    assert "default/a\n" in text
    assert "default/b\n" in text


def test_a_named_unreadable_node_is_counted_and_its_problem_reported() -> None:
    broken = gpu_node("n0")
    broken["metadata"]["annotations"] = {names.ANNOTATION_NODE_GPUS: "?"}
    text = run("--node", "n0", node=broken).stdout
    assert text.startswith("0 GPUs, 1 node, 0 pods")
    assert "is not JSON" in text


def test_only_the_named_node_is_shown_and_an_unknown_one_is_refused() -> None:
    assert json.loads(run("--node", "n0", "-o", "json").stdout)["totals"]["gpus"] == 2
    refused = run("--node", "n7")
    assert refused.exit_code == 2
    assert "--node n7: no such node" in refused.stderr


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_the_picture_is_drawn_to_a_file(tmp_path: Path, suffix: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"gpus.{suffix}"
    assert run("--plot", str(path), pods=[WHOLE, TOO_MUCH], node=SICK).exit_code == 0
    assert path.stat().st_size > 5000


def test_a_live_cluster_is_read_through_the_kubeconfig(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node(), BOUND) as api:
        result = CliRunner().invoke(app, ["gpus", "--kubeconfig", str(api.kubeconfig(tmp_path)), "-o", "json"])
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["gpus"][0]["pods"][0]["name"] == "a"


def test_watching_needs_a_live_cluster() -> None:
    refused = run("--watch")
    assert refused.exit_code == 2
    assert "leave --from away" in refused.stderr


def test_following_shows_what_events_change(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node(), BOUND) as api:
        api.events["/api/v1/pods"] = [{"type": "ADDED", "object": BESIDE}, {"type": "BOOKMARK", "object": {}}]
        api.hold = threading.Event()
        placers = follow(ClusterClient.connect(str(api.kubeconfig(tmp_path)), None))
        assert set(next(placers).ledger.bookings()) == {"uid-a"}
        api.hold.set()
        assert set(next(placers).ledger.bookings()) == {"uid-a", "uid-b"}


def test_following_a_cluster_that_refuses_ends_with_its_words(tmp_path: Path) -> None:
    with HttpFace.serving() as api:
        api.status = 403
        with pytest.raises(ClusterError, match="refused with 403"):
            next(follow(ClusterClient.connect(str(api.kubeconfig(tmp_path)), None)))


def test_a_picture_is_of_one_moment_and_not_of_a_watch() -> None:
    result = run("--watch", "--plot", "gpus.svg")
    assert (result.exit_code, "--plot draws one picture" in result.stderr) == (2, True)


def test_the_time_of_a_snapshot_is_written_as_kubernetes_writes_times(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node()) as api:
        words = ["gpus", "-o", "json", "--kubeconfig", str(api.kubeconfig(tmp_path))]
        taken = json.loads(CliRunner().invoke(app, words).stdout)["takenAt"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", taken)


def test_compute_is_shown_beside_memory_where_pods_declare_it() -> None:
    pods = [
        gpu_pod("a", memory_mib=6144, compute=50, model="bert", node="n0", gpu="0"),
        gpu_pod("b", memory_mib=3072, compute=25, model="resnet", node="n0", gpu="0"),
        gpu_pod("c", memory_mib=3072, model="vgg", node="n0", gpu="1"),
    ]
    shown = document(*pods)
    assert [gpu["freeComputePercent"] for gpu in shown["gpus"]] == [25, None]
    assert [pod["computePercent"] for gpu in shown["gpus"] for pod in gpu["pods"]] == [50, 25, None]
    first, second = [line for line in run(pods=pods).stdout.splitlines() if "V100" in line]
    assert "AAAAAABBB···" in first
    assert "A:6144/50% B:3072/25%" in first
    assert "????????????" in second, "what of its compute is free nobody knows"
    assert "COMPUTE" not in run(pods=[BOUND]).stdout


def test_more_compute_than_a_gpu_has_is_marked_and_a_problem() -> None:
    pods = [gpu_pod(name, compute=70, model=name, node="n0", gpu="0") for name in "ab"]
    text = run(pods=pods).stdout
    assert "AAAAAAAABBBB!" in text
    assert "GPU 0 of node n0: 140 percent of its compute is booked" in text
    assert document(*pods)["gpus"][0]["freeComputePercent"] == -40


def on_terms(name: str, *, share: str = "0.57", tolerance: str = "1.75", gpu: str = "0", **factors: str) -> Json:
    """A bound pod with terms, whose model has its name. factors: on other models."""
    terms = {"share": share, "tolerance": tolerance, "factors": {"*": "1.9", **factors}}
    annotations = {names.ANNOTATION_GPU_SHARING: json.dumps(terms)}
    return gpu_pod(name, memory_mib=3072, compute=100, model=name, node="n0", gpu=gpu, annotations=annotations)


def test_pods_with_terms_show_how_much_they_are_slowed_of_what_they_tolerate() -> None:
    pods = [on_terms("a", b="1.041"), on_terms("b", share="0.19", tolerance="3", a="1.4")]
    (gpu, idle) = document(*pods)["gpus"]
    assert (gpu["freeComputePercent"], idle["freeComputePercent"]) == (20, 100), "1.4 of 1.75 is 80 percent"
    assert [pod["sharing"] for pod in gpu["pods"]] == [
        {"share": "0.57", "tolerance": "1.75", "slowdown": "1.4"},
        {"share": "0.19", "tolerance": "3", "slowdown": "1.041"},
    ]
    first = next(line for line in run(pods=pods).stdout.splitlines() if "V100" in line)
    assert "AAAAAAABBB··" in first, "80 percent, three to one"
    assert "A:3072/1.4x B:3072/1.05x" in first


def test_a_pod_with_terms_alone_is_not_slowed_and_takes_its_part_of_what_it_tolerates() -> None:
    (gpu, _) = document(on_terms("a"))["gpus"]
    assert gpu["pods"][0]["sharing"]["slowdown"] == "1"
    assert gpu["freeComputePercent"] == 100 - 33


def test_terms_beside_another_kind_are_a_problem_and_no_slow_down_is_claimed() -> None:
    pods = [on_terms("a"), gpu_pod("old", model="old", node="n0", gpu="0")]
    shown = document(*pods)
    assert [pod["sharing"] and pod["sharing"]["slowdown"] for pod in shown["gpus"][0]["pods"]] == [None, None]
    assert shown["problems"]
    assert "A:3072/?x" in run(pods=pods).stdout


def test_slow_downs_beyond_what_is_tolerated_are_marked() -> None:
    pods = [on_terms("a"), on_terms("b", a="1.1")]
    text = run(pods=pods).stdout
    assert "AAAAAAABBBBB!" in text
    assert "takes 1.9 times as long as alone and tolerates 1.75" in " ".join(text.split())


def test_a_figure_of_pods_that_declare_compute_has_a_second_part(tmp_path: Path) -> None:
    pods = [gpu_pod(name, compute=70, model=name, node="n0", gpu="0") for name in "ab"]
    for compute, file in ((True, tmp_path / "both.svg"), (False, tmp_path / "memory.svg")):
        assert run("--plot", str(file), pods=pods if compute else [BOUND]).exit_code == 0
        assert file.read_text().count('<g id="axes_') == 1 + compute


SLICE: Json = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceSlice",
    "metadata": {"name": "n0-gpu.nvidia.com-x"},
    "spec": {"driver": "gpu.nvidia.com", "nodeName": "n0", "devices": [{"name": "gpu-0"}]},
}
OFFERED = (
    "node n0 takes no new pods: ResourceSlice n0-gpu.nvidia.com-x: DRA driver gpu.nvidia.com offers the GPUs to"
    " ResourceClaims; take its kubelet plugin off this node"
)


def test_gpus_that_somebody_else_gives_are_closed_and_a_problem_says_why() -> None:
    shared = gpu_node()
    shared["metadata"]["labels"]["nvidia.com/gpu.replicas"] = "4"
    shown = document(BOUND, node=shared)
    assert [gpu["open"] for gpu in shown["gpus"]] == [False, False]
    (problem,) = shown["problems"]
    assert problem.startswith("node n0 takes no new pods: label nvidia.com/gpu.replicas: '4': NVIDIA's device plugin")


def test_slices_are_read_from_a_cluster_and_kept_in_a_dump(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node(), BOUND, SLICE) as api:
        kubeconfig = str(api.kubeconfig(tmp_path))
        live = CliRunner().invoke(app, ["gpus", "--kubeconfig", kubeconfig, "-o", "json"])
        dumped = CliRunner().invoke(app, ["placement", "dump", "--no-log", "--kubeconfig", kubeconfig])
        asked = [seen["query"] for _, path, seen in api.requests if path == names.RESOURCE_SLICES]
    stored = CliRunner().invoke(app, ["gpus", "--from", "-", "-o", "json"], input=dumped.stdout)
    assert json.loads(live.stdout)["problems"] == json.loads(stored.stdout)["problems"] == [OFFERED]
    assert {query["fieldSelector"] for query in asked} == {"spec.driver=gpu.nvidia.com"}


@pytest.mark.parametrize(("status", "noted"), [(403, True), (404, False)])
def test_a_cluster_without_slices_for_the_caller_is_shown_all_the_same(
    tmp_path: Path, status: int, *, noted: bool
) -> None:
    with HttpFace.serving(gpu_node(), BOUND) as api:
        api.refused[names.RESOURCE_SLICES] = status
        kubeconfig = str(api.kubeconfig(tmp_path))
        result = CliRunner().invoke(app, ["gpus", "--kubeconfig", kubeconfig, "-o", "json"])
        followed = next(follow(ClusterClient.connect(kubeconfig, None)))
    assert json.loads(result.stdout)["totals"]["gpus"] == 2
    assert ("look as if they were hetserve's" in result.stderr) is noted
    assert set(followed.ledger.bookings()) == {"uid-a"}


def test_following_hears_of_slices(tmp_path: Path) -> None:
    with HttpFace.serving(gpu_node(), BOUND) as api:
        api.events[names.RESOURCE_SLICES] = [{"type": "ADDED", "object": SLICE}]
        api.hold = threading.Event()
        placers = follow(ClusterClient.connect(str(api.kubeconfig(tmp_path)), None))
        assert all(use.open for use in next(placers).ledger.gpus())
        api.hold.set()
        assert not any(use.open for use in next(placers).ledger.gpus())
