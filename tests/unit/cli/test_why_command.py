from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hetserve.api import names
from hetserve.cli.app import app
from hetserve.cli.placement.why_answer import against_node
from installation_objects import settings_object
from testing.cluster import gpu_node, gpu_pod, plugin_pod
from testing.kit.http_face import HttpFace

Json = dict[str, Any]
NODE = gpu_node("n0", gpus=2, product="T4", memory_mib=16384)
HOLDER = gpu_pod("holder", memory_mib=6000, model="resnet", node="n0", gpu="0")
OTHER = gpu_pod("other", memory_mib=14000, model="bert", node="n0", gpu="1")


def run(pod: str, *objects: Json, arguments: tuple[str, ...] = ()) -> Result:
    items = [{"kind": "Pod" if "containers" in one["spec"] else "Node", **one} for one in objects]
    stdin = json.dumps({"kind": "List", "takenAt": "2026-01-01T00:01:40Z", "items": items})
    return CliRunner().invoke(app, ["why", pod, "--from", "-", *arguments], input=stdin)


def answer(pod: str, *objects: Json, code: int = 0) -> Any:
    result = run(pod, *objects, arguments=("-o", "json"))
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def reasons(answer: Json) -> dict[str, list[str]]:
    return {gpu["gpu"]: [reason["kind"] for reason in gpu["reasons"]] for gpu in answer["gpus"]}


def test_a_bound_pod_is_said_to_hold_its_gpu_beside_whom_and_since_when() -> None:
    mine = gpu_pod("mine", memory_mib=2000, model="vgg", node="n0", gpu="0")
    mine["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:07Z"}
    ]
    said = answer("mine", NODE, HOLDER, mine)
    assert (said["state"], said["holds"]["node"]) == ("Bound", "n0")
    assert said["message"] == "holds GPU 0 of node n0, 2000 MiB, since 2026-01-01T00:00:07Z"
    assert [pod["name"] for pod in said["holds"]["beside"]] == ["holder"]
    assert said["holds"]["gpus"][0]["freeMiB"] == 16384 - 8000


def test_why_says_what_an_unbound_pod_would_get_and_why_not_each_other_gpu() -> None:
    said = answer("new", NODE, HOLDER, OTHER, gpu_pod("new", memory_mib=2000, model="resnet"))
    assert said["state"] == "Scheduling"
    assert said["decision"]["chosen"] == {"node": "n0", "gpus": ["1"]}
    assert reasons(said) == {"0": ["model"], "1": []}
    assert [gpu["gpu"] for gpu in said["gpus"] if gpu["chosen"]] == ["1"]
    assert "model resnet is held there by default/holder" in json.dumps(said)


def test_what_fits_nowhere_says_by_how_much_and_exits_with_3() -> None:
    said = answer("new", NODE, HOLDER, OTHER, gpu_pod("new", memory_mib=11000, model="resnet"), code=3)
    assert reasons(said) == {"0": ["model", "memory"], "1": ["memory"]}
    assert "8616 MiB short: 2384 MiB free, 11000 wanted" in json.dumps(said)
    assert said["decision"]["refusals"] == [
        {"reason": "no GPU with 11000 MiB free; the most free on any eligible GPU is 2384 MiB", "nodes": 1}
    ]


CASES = {
    "a product": ({names.ANNOTATION_GPU_PRODUCT: "V100"}, {}, "is a T4, not a V100"),
    "an excluded id": ({names.ANNOTATION_GPU_UUID_EXCLUDE: "0,1"}, {}, "is excluded by its id"),
    "a whole GPU": ({}, {"memory_mib": 0, "gpus": 1}, "is not idle, as a whole GPU must be: holds default/holder"),
}


@pytest.mark.parametrize(("annotations", "wants", "words"), CASES.values(), ids=CASES)
def test_every_wish_that_is_not_met_is_named(annotations: dict[str, str], wants: Json, words: str) -> None:
    asked = {"memory_mib": 1000, "model": "vgg", **wants}
    result = run("new", NODE, HOLDER, OTHER, gpu_pod("new", annotations=annotations, **asked))
    assert result.exit_code == 3
    assert words in result.stdout


def test_why_says_the_place_and_the_bound_of_a_gated_pod() -> None:
    ours = (names.QUEUE_GATE,)
    older = gpu_pod("older", model="a", gates=ours, created="2026-01-01T00:00:00Z")
    urgent = gpu_pod("urgent", model="b", gates=ours, created="2026-01-01T00:01:00Z", priority=5)
    mine = gpu_pod("mine", model="c", gates=ours, created="2026-01-01T00:01:00Z")
    said = answer("mine", NODE, older, urgent, mine)
    assert said["state"] == "Gated"
    assert said["queue"]["waiting"] == 3
    assert (said["queue"]["older"], said["queue"]["samePriority"], said["queue"]["higherPriority"]) == (1, 2, 1)
    assert said["queue"]["releasedWithin"] == 4
    assert said["queue"]["waitedSeconds"] == pytest.approx(1767225700 - 1767225660)
    assert "credits, which the extender alone knows" in " ".join(run("mine", NODE, older, urgent, mine).stdout.split())


def test_gates_of_others_are_named_as_theirs() -> None:
    mine = gpu_pod("mine", gates=(names.QUEUE_GATE, "kueue.x-k8s.io/admission"))
    assert "waits for gate kueue.x-k8s.io/admission, which others lift" in answer("mine", NODE, mine)["message"]


def test_the_schedulers_last_words_and_a_wrong_scheduler_are_shown() -> None:
    mine = gpu_pod("mine", unschedulable=True)
    mine["status"]["conditions"][0]["message"] = "0/3 nodes are available: 3 Insufficient cpu."
    mine["spec"]["schedulerName"] = "default-scheduler"
    text = run("mine", NODE, mine).stdout
    assert "0/3 nodes are available: 3 Insufficient cpu." in text
    assert "schedulerName is default-scheduler" in text


def test_node_rules_are_judged_where_simple_and_named_where_not() -> None:
    mine = gpu_pod("mine")
    mine["spec"] |= {"nodeSelector": {"pool": "gpu"}, "affinity": {"podAffinity": {"x": []}}}
    tainted = gpu_node("tainted")
    tainted["metadata"]["labels"]["pool"] = "gpu"
    tainted["spec"]["taints"] = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]
    said = answer("mine", NODE, tainted, mine, code=3)
    assert {kind for kinds in reasons(said).values() for kind in kinds} == {"node"}
    assert "nodeSelector pool=gpu: the node has none" in json.dumps(said)
    assert "taint dedicated=x:NoSchedule is not tolerated" in json.dumps(said)
    assert said["notJudged"] == ["affinity.podAffinity"]
    mine["spec"]["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    assert answer("mine", NODE, tainted, mine)["decision"]["chosen"]["node"] == "tainted"
    tainted["spec"]["unschedulable"] = True
    assert "the node is cordoned" in json.dumps(answer("mine", NODE, tainted, mine, code=3))


def test_a_wish_that_cannot_be_read_is_the_answer() -> None:
    bad = gpu_pod("bad", annotations={names.ANNOTATION_PLACEMENT_POLICY: "Tightest"})
    result = run("bad", NODE, bad)
    assert result.exit_code == 2
    assert "'Tightest' is not WorstFit or DominantWorstFit" in result.stdout


def test_a_bound_pod_holds_its_gpu_whatever_its_wishes_say_since() -> None:
    spoilt = gpu_pod("spoilt", node="n0", gpu="0", annotations={names.ANNOTATION_PLACEMENT_POLICY: "Tightest"})
    assert answer("spoilt", NODE, spoilt)["message"] == "holds GPU 0 of node n0, 4096 MiB"


UNNAMED = {
    "one GPU, none named": (
        {},
        {},
        "holds a GPU that no annotation hetserve.io/gpu names, of node n0, 4096 MiB",
        [None],
    ),
    "two GPUs, one named": (
        {"gpus": 2},
        {names.ANNOTATION_GPU: "1"},
        "holds GPUs 1 and others that its annotation does not name, of node n0, 4096 MiB each",
        [None, "1"],
    ),
    "two GPUs, none named": (
        {"gpus": 2},
        {},
        "holds GPUs that no annotation hetserve.io/gpu names, of node n0, 4096 MiB each",
        [None],
    ),
    "a whole GPU, none named": (
        {"gpus": 1, "memory_mib": 0},
        {},
        "holds a GPU that no annotation hetserve.io/gpu names, of node n0, whole",
        [None],
    ),
}


@pytest.mark.parametrize(("wants", "annotations", "message", "gpus"), UNNAMED.values(), ids=UNNAMED)
def test_why_says_that_a_bound_pod_does_not_name_its_gpus(
    wants: Json, annotations: dict[str, str], message: str, gpus: list[str | None]
) -> None:
    past_us = gpu_pod("past-us", node="n0", annotations=annotations, **wants)
    said = answer("past-us", NODE, OTHER, past_us)
    assert said["message"] == message
    assert [gpu["gpu"] for gpu in said["holds"]["gpus"]] == gpus
    text = run("past-us", NODE, OTHER, past_us).stdout
    assert "the node takes no new pods until the pod names it or ends" in text
    assert "nobody" not in text, "whom it is beside is not known"


PLUGGED = "pods on the node hold GPUs through nvidia.com/gpu, and nobody knows which; it takes new pods once they end"


def test_why_says_what_a_pod_of_the_device_plugin_does_to_its_node() -> None:
    said = answer("nvidia", NODE, plugin_pod())
    assert said["state"] == "NotOurs"
    assert said["message"].startswith("has GPUs of node n0 through nvidia.com/gpu, and nobody knows which: the node")
    assert "asks for no hetserve.io/gpu-memory" in answer("nvidia", NODE, plugin_pod(node=None))["message"]
    assert answer("nvidia", NODE, plugin_pod(phase="Succeeded"))["state"] == "Finished"


def test_why_names_the_device_plugins_pod_beside_which_a_pod_waits() -> None:
    said = answer("mine", NODE, gpu_pod("mine"), plugin_pod(), code=3)
    assert [one["reason"] for one in said["decision"]["refusals"]] == [PLUGGED]
    assert {gpu["reasons"][0]["kind"] for gpu in said["gpus"]} == {"device-plugin"}
    assert said["gpus"][0]["reasons"][0]["text"] == f"{PLUGGED}: default/nvidia"


def test_why_says_that_a_pod_has_gpus_of_both() -> None:
    both = gpu_pod("both", node="n0", gpu="0")
    both["spec"]["containers"][0]["resources"]["limits"][names.RESOURCE_NVIDIA_GPU] = "1"
    said = answer("both", NODE, both)
    assert said["message"] == "holds GPU 0, and others through nvidia.com/gpu, of node n0, 4096 MiB"
    assert not said["holds"]["allNamed"]
    del both["spec"]["nodeName"]
    result = run("both", NODE, both)
    assert result.exit_code == 2
    assert "ask for one of the two" in " ".join(result.stdout.split())


def test_why_says_that_a_bound_pod_that_cannot_be_read_closes_its_node() -> None:
    result = run("odd", NODE, gpu_pod("odd", node="n0", memory_mib="1e9999999"))
    assert result.exit_code == 2
    said = " ".join(result.stdout.split())
    assert (
        "is on node n0, which takes no new pods while it is there, for it cannot be read: hetserve.io/gpu-memory"
        in said
    )


def test_why_says_that_a_pod_that_names_no_gpu_closes_no_node() -> None:
    odd = gpu_pod("odd", node="n0")
    odd["spec"] = {"nodeName": "n0", "containers": [], "priority": "x"}
    said = " ".join(run("odd", NODE, odd).stdout.split())
    assert "is on node n0 and names no GPU; it cannot be read: spec.priority" in said
    assert "takes no new pods" not in said


def test_why_says_that_a_pod_needs_no_gpu_or_has_finished() -> None:
    plain = gpu_pod("plain")
    del plain["spec"]["containers"][0]["resources"]
    assert answer("plain", NODE, plain)["state"] == "NotOurs"
    assert answer("done", NODE, gpu_pod("done", phase="Succeeded"))["state"] == "Finished"


def test_a_finished_pod_of_a_live_cluster_is_found_and_an_unknown_one_is_not(tmp_path: Path) -> None:
    done = gpu_pod("done", namespace="team", phase="Failed")
    with HttpFace.serving(NODE, HOLDER) as api:
        kubeconfig = ["--kubeconfig", str(api.kubeconfig(tmp_path))]
        missing = CliRunner().invoke(app, ["why", "done", *kubeconfig])
        api.api.add(done)
        found = CliRunner().invoke(app, ["why", "done", *kubeconfig])
    assert (missing.exit_code, found.exit_code) == (2, 0)
    assert "no pod done in namespace team" in missing.stderr
    assert "has finished (Failed)" in found.stdout


def test_many_gpus_are_cut_to_those_nearest_to_fitting_unless_all_are_wanted() -> None:
    nodes = [gpu_node(f"n{number}", gpus=8, memory_mib=1024) for number in range(5)]
    asked = gpu_pod("new", memory_mib=2000)
    assert "16 more" in run("new", *nodes, asked).stdout
    assert "more" not in run("new", *nodes, asked, arguments=("--all",)).stdout


@pytest.mark.parametrize(
    ("settings", "policy", "beta"),
    [
        ("policy: BestFit\nqueue: {beta: 3}", "BestFit", 3),
        ("[", "PackedWorstFit", 8),
        ("", "PackedWorstFit", 8),
        ("- policy", "PackedWorstFit", 8),
        (None, "PackedWorstFit", 8),
    ],
    ids=["as configured", "no YAML", "nothing", "a list", "no ConfigMap"],
)
def test_the_installations_policy_and_beta_are_taken_where_they_can_be_read(
    tmp_path: Path, settings: str | None, policy: str, beta: int
) -> None:
    mine = gpu_pod("mine", namespace="team", gates=(names.QUEUE_GATE,))
    with HttpFace.serving(NODE, mine) as api:
        if settings is not None:
            api.api.add(settings_object("extender", settings))
        arguments = ["why", "mine", "-o", "json", "--kubeconfig", str(api.kubeconfig(tmp_path))]
        result = CliRunner().invoke(app, arguments)
    said = json.loads(result.stdout)
    assert said["decision"]["policy"] == policy
    assert said["queue"]["beta"] == beta
    assert ("its defaults are taken" in result.stderr) == (policy != "BestFit")


TOLERATIONS = {
    "the key with any value": ({"key": "dedicated", "operator": "Exists"}, True),
    "the key and the value": ({"key": "dedicated", "value": "x"}, True),
    "another value": ({"key": "dedicated", "value": "y"}, False),
    "another effect": ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, False),
    "everything": ({"operator": "Exists"}, True),
    "no key and no operator": ({"value": "x"}, False),
}


@pytest.mark.parametrize(("toleration", "tolerated"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_taints_are_tolerated_as_kubernetes_says(toleration: Json, tolerated: bool) -> None:
    node = {"spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]}}
    assert (against_node({"spec": {"tolerations": [toleration]}}, node) == ()) == tolerated


def test_taints_that_only_prefer_are_no_obstacle() -> None:
    assert against_node({}, {"spec": {"taints": [{"key": "slow", "effect": "PreferNoSchedule"}]}}) == ()


def test_a_pod_of_another_scheduler_is_never_placed_and_exits_with_3() -> None:
    mine = gpu_pod("mine", memory_mib=2000)
    mine["spec"]["schedulerName"] = "default-scheduler"
    assert "knows no GPUs of ours" in answer("mine", NODE, mine, code=3)["message"]


def test_whom_a_gate_of_others_holds_too_has_no_place_in_the_queue_yet() -> None:
    mine = gpu_pod("mine", memory_mib=2000, gates=(names.QUEUE_GATE, "kueue.x-k8s.io/admission"))
    assert answer("mine", NODE, mine)["queue"] is None


@pytest.mark.parametrize(
    ("named", "noted"),
    [(("--system-namespace", "gpu-sharing"), False), (("--system-namespace", "hetserve-system"), True), ((), False)],
)
def test_an_installation_in_another_namespace_is_found_or_named_and_a_missing_one_is_noted(
    tmp_path: Path, named: tuple[str, ...], noted: bool
) -> None:
    with HttpFace.serving(NODE, gpu_pod("mine", namespace="team")) as api:
        api.api.add(settings_object("extender", "policy: BestFit", namespace="gpu-sharing", prefix="our-gpus"))
        at = ["--kubeconfig", str(api.kubeconfig(tmp_path)), *named]
        said = CliRunner().invoke(app, ["why", "mine", "-o", "json", *at])
    assert (json.loads(said.stdout)["decision"]["policy"] == "BestFit", "holds no settings" in said.stderr) == (
        not noted,
        noted,
    )


def on_terms(name: str, gpu: str | None = None, **factors: str) -> Json:
    """A pod with terms, whose model has its name. factors: on other models."""
    terms = {"share": "0.5", "tolerance": "1.75", "factors": {"*": "1.9", **factors}}
    annotations = {names.ANNOTATION_GPU_SHARING: json.dumps(terms)}
    bound = {} if gpu is None else {"node": "n0", "gpu": gpu}
    return gpu_pod(name, memory_mib=2000, compute=100, model=name, annotations=annotations, **bound)  # type: ignore[arg-type]


def test_why_says_how_much_a_pod_with_terms_is_slowed_and_by_whom() -> None:
    pods = (on_terms("a", "0", b="1.1", c="1.1"), on_terms("b", "0", a="1.25"), on_terms("c", "0", a="1.05", b="1"))
    held = answer("a", NODE, *pods)["holds"]
    assert held["gpus"][0]["sharing"] == {"share": "0.5", "tolerance": "1.75", "slowdown": "1.5"}, "the sum of shares"
    assert [(one["name"], one["adds"]) for one in held["beside"]] == [("b", "0.25"), ("c", "0.05")]
    text = " ".join(run("a", NODE, *pods).stdout.split())
    assert "slowed at most 1.5 times as long as alone, whatever those beside it do; it tolerates 1.75" in text
    assert "default/b (b, adds 0.25), default/c (c, adds 0.05)" in text


def test_why_names_who_would_be_slowed_too_much() -> None:
    there = (on_terms("a", "0", new="1.1"), gpu_pod("percent", memory_mib=1000, compute=10, node="n0", gpu="1"))
    said = answer("new", NODE, *there, on_terms("new", b="1.1"), code=3)
    (slow,), (kind,) = ([reason["text"] for reason in gpu["reasons"]] for gpu in said["gpus"])
    assert slow == "default/a would take 1.9 times as long as alone and tolerates 1.75"
    assert "default/percent there declares compute without annotation hetserve.io/gpu-sharing" in kind
    assert json.loads(said["request"]["sharing"])["factors"] == {"*": "1.9", "b": "1.1"}


def test_why_of_terms_beside_another_kind_claims_no_slow_down() -> None:
    pods = (on_terms("a", "0"), gpu_pod("old", memory_mib=1000, model="old", node="n0", gpu="0"))
    text = " ".join(run("a", NODE, *pods).stdout.split())
    assert "nobody knows how much: pods without terms are beside it; it tolerates 1.75" in text


def test_why_of_terms_that_cannot_be_read_says_what_would_be_right() -> None:
    odd = on_terms("odd")
    odd["metadata"]["annotations"][names.ANNOTATION_GPU_SHARING] = '{"share": "0"}'
    said = answer("odd", NODE, odd, code=2)
    assert said["state"] == "Unreadable"
    assert "annotation hetserve.io/gpu-sharing" in said["message"]
    assert "write for example" in said["message"]


def test_why_says_that_there_is_room_for_the_memory_and_not_for_the_compute() -> None:
    there = gpu_pod("there", memory_mib=2000, compute=70, model="vgg", node="n0", gpu="0")
    old = gpu_pod("old", memory_mib=2000, model="old", node="n0", gpu="1")
    new = gpu_pod("new", memory_mib=2000, compute=50, model="resnet")
    said = answer("new", NODE, there, old, new, code=3)
    assert said["asks"] == "2000 MiB and 50 percent of compute"
    assert said["request"]["computePercent"] == 50
    assert reasons(said) == {"0": ["compute"], "1": ["undeclared"]}
    assert [(gpu["freeMiB"], gpu["freeComputePercent"]) for gpu in said["gpus"]] == [(14384, 30), (14384, None)]
    assert said["decision"]["why"] == (
        "1 nodes: no GPU with 2000 MiB and 50 percent of compute free;"
        " the most compute free on any GPU with the memory is 30 percent"
    )
    text = run("new", NODE, there, old, new).stdout
    assert "20 percent of compute short: 30 percent free, 50 percent wanted" in text
    held = answer("there", NODE, there)
    assert held["message"].startswith("holds GPU 0 of node n0, 2000 MiB and 70 percent of compute")
    assert held["holds"]["gpus"][0]["freeComputePercent"] == 30
    assert "30 percent of compute free" in run("there", NODE, there).stdout
