"""`hetserve why` tells the problems of the pod asked for alone, and promises nothing to one that is ending."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from hetserve.api import names
from hetserve.cli.app import app
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]
NODE = gpu_node("n0", gpus=2, product="T4", memory_mib=16384)


def answer(name: str, *objects: Json, namespace: str = "prod", code: int = 0) -> Json:
    items = [{"kind": "Pod" if "containers" in one["spec"] else "Node", **one} for one in (NODE, *objects)]
    stdin = json.dumps({"kind": "List", "takenAt": "2026-01-01T00:01:40Z", "items": items})
    words = ["why", name, "-n", namespace, "--from", "-", "-o", "json"]
    result = CliRunner().invoke(app, words, input=stdin)
    assert result.exit_code == code, result.output
    said: Json = json.loads(result.stdout)
    return said


def ending(pod: Json) -> Json:
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:30Z"
    return pod


UNNAMED = "pod {} is bound to n0 for 4096 MiB, but no annotation says on which GPU"
STRANGERS = {
    "a namespace that ends alike": ("my-prod", "web"),
    "a name that begins alike": ("prod", "web-2"),
    "a name that ends alike": ("prod", "my-web"),
}


@pytest.mark.parametrize(("namespace", "name"), STRANGERS.values(), ids=STRANGERS)
def test_the_problem_of_a_stranger_is_not_shown(namespace: str, name: str) -> None:
    fine = gpu_pod("web", namespace="prod", node="n0", gpu="0")
    stranger = gpu_pod(name, namespace=namespace, uid="stranger", model="other", node="n0")
    assert answer("web", fine, stranger)["problems"] == []
    told = answer(name, fine, stranger, namespace=namespace)["problems"]
    assert told == [UNNAMED.format(f"{namespace}/{name}")]


def test_why_says_that_a_pod_holds_a_gpu_whole_beside_others() -> None:
    whole = gpu_pod("web", namespace="prod", memory_mib=0, gpus=1, node="n0", gpu="0")
    beside = gpu_pod("beside", namespace="prod", model="other", node="n0", gpu="0")
    assert answer("web", whole, beside)["problems"] == [
        "GPU 0 of node n0 is held whole by pod prod/web and holds 2 pods"
    ]
    assert answer("beside", whole, beside)["problems"] == []


@pytest.mark.parametrize("gates", [(), (names.QUEUE_GATE,)], ids=["released", "at the gate"])
def test_a_pod_that_ends_before_it_was_placed_is_promised_nothing(gates: tuple[str, ...]) -> None:
    said = answer("web", ending(gpu_pod("web", namespace="prod", gates=gates)), code=3)
    assert (said["state"], said["message"]) == ("Ending", "is ending before it was placed: it gets no GPU any more")
    assert not {"decision", "gpus", "queue"} & said.keys()


def test_a_pod_that_ends_on_a_gpu_still_holds_it() -> None:
    said = answer("web", ending(gpu_pod("web", namespace="prod", node="n0", gpu="0")))
    assert said["message"] == "holds GPU 0 of node n0, 4096 MiB; it is ending, and holds them until it is gone"
