"""The commands that bring up a kind cluster: what belongs to which, and what their exit codes tell CI apart."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from images.engines import Engine, EngineError

from harness import kind
from harness.kube import Manifest

READY: Final = {"conditions": [{"type": "Ready", "status": "True"}]}


def node(name: str, labels: dict[str, str] | None = None, status: dict[str, Any] | None = None) -> Manifest:
    return {"metadata": {"name": name, "labels": labels or {}}, "status": READY if status is None else status}


class Nodes:
    """What a cluster says of its nodes."""

    def __init__(self, *nodes: Manifest) -> None:
        self.nodes = list(nodes)

    def list(self, resource: str, *, labels: str = "") -> list[Manifest]:
        assert resource == "nodes"
        return [
            each for each in self.nodes if not labels.startswith("!") or labels[1:] not in each["metadata"]["labels"]
        ]

    def patch(self, resource: str, name: str, change: Manifest) -> None:
        assert resource == "nodes"
        (found,) = [each for each in self.nodes if each["metadata"]["name"] == name]
        found["metadata"].setdefault("annotations", {}).update(change["metadata"]["annotations"])

    def close(self) -> None: ...


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A machine where all ends well; holds what was run."""
    done: list[str] = []
    control = node("control", {"node-role.kubernetes.io/control-plane": ""})
    nodes = Nodes(control, node("worker"), node("fake", {"kwok.x-k8s.io/node": "fake"}, {}))
    monkeypatch.setenv("KINDLAB_CACHE", str(tmp_path))
    (tmp_path / f"kubeconfig-{kind.NAME}").touch()
    monkeypatch.setattr(kind, "Kube", lambda _: nodes)
    monkeypatch.setattr(kind, "NODES_SECONDS", 0.0)
    monkeypatch.setattr(kind, "lab", lambda *stages: done.extend(f"lab {stage}" for stage in stages))
    monkeypatch.setattr(Engine, "identity", lambda _, tag: f"sha256:{tag}")
    monkeypatch.setattr(kind, "provide", lambda _: {})
    monkeypatch.delenv("BASE", raising=False)
    monkeypatch.setattr(kind, "choose", lambda _: Engine("docker"))
    monkeypatch.setattr("images.build.build", noting(done, "build {}", list))
    monkeypatch.setattr("harness.previous.build_images", noting(done, "build previous", lambda *_: ["previous"]))
    monkeypatch.setattr(kind.KindCluster, "label", lambda _, name, labels: done.append(f"label {name} {labels}"))
    monkeypatch.setattr(kind.KindCluster, "workers", lambda _: ["worker"])
    monkeypatch.setattr(kind, "load", lambda _, tags, workers: done.append(f"load {tags} {workers}"))
    return done


def noting(done: list[str], what: str, answer: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def noted(*arguments: Any, **_: Any) -> list[str]:
        done.append(what.format(*arguments))
        return answer(*arguments)

    return noted


def raising(error: Exception) -> Callable[..., Any]:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    return fails


def test_a_cluster_that_does_not_come_up_has_a_code_of_its_own(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(kind, "lab", raising(subprocess.CalledProcessError(1, ["kindlab.sh", "up"])))
    assert kind.main(["cluster"]) == kind.main(["up"]) == 3
    assert capsys.readouterr().err.startswith("Error: no kind cluster came up: Command '['kindlab.sh', 'up']'")


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        ("build.build", EngineError("this failed: docker build")),
        ("build.build", subprocess.CalledProcessError(1, ["pip", "download"])),
        ("load", RuntimeError("kind load: no space left")),
        ("choose", EngineError("no container engine answers")),
    ],
)
def test_what_fails_with_a_cluster_is_not_taken_for_a_missing_one(
    ran: list[str], monkeypatch: pytest.MonkeyPatch, broken: str, error: Exception
) -> None:
    monkeypatch.setattr(f"harness.kind.{broken}", raising(error))
    assert kind.main(["short"]) == kind.main(["up"]) == 1
