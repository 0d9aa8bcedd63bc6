"""Pods of real containers, which print the devices that they were given, and what their namespace is told of them."""

from __future__ import annotations

from typing import Any, Final

from images import build

from harness import limits
from harness.kind import REAL, KindCluster
from harness.kube import Manifest
from harness.waiting import Unmet, wait_until
from hetserve.api.names import ANNOTATION_GPU, ENV_VISIBLE_DEVICES, SCHEDULER_NAME

HOST: Final = "kubernetes.io/hostname"
"""Label of a node with its name."""
SAYS: Final = f'echo "GPUs ${ENV_VISIBLE_DEVICES}"; exec sleep 600'


def container_pod(name: str, namespace: str, limits: dict[str, str], **spec: Any) -> Manifest:
    """A pod of our scheduler's for a real node, of the extender's image, which all of them have. spec: more of it."""
    seen = {
        "name": ENV_VISIBLE_DEVICES,
        "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{ANNOTATION_GPU}']"}},
    }
    container = {
        "name": "model",
        "image": build.tag_of("extender"),
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", SAYS],
        "env": [seen],
        "resources": {"limits": limits},
    }
    base = {
        "schedulerName": SCHEDULER_NAME,
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {REAL: "true"},
        "containers": [container],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": base | spec,
    }


def printed(kind: KindCluster, namespace: str, name: str) -> list[str]:
    """The devices that a container has printed. Raises WaitTimeoutError."""
    said = wait_until(lambda: kind.kubectl("logs", "-n", namespace, name), limits.REACTION, f"{name} to print")
    return said.split()[1].split(",")


def wait_for_running(kind: KindCluster, namespace: str, *names: str) -> None:
    """Waits until these pods run; none: all of the namespace. Raises WaitTimeoutError."""

    def running() -> bool | Unmet:
        phases = {each["metadata"]["name"]: each["status"].get("phase") for each in kind.pods(namespace)}
        wanted = names or tuple(phases)
        return (bool(wanted) and all(phases.get(name) == "Running" for name in wanted)) or Unmet(phases)

    wait_until(running, limits.ROLLOUT, f"the containers of {', '.join(names) or namespace} to run")


def wait_for_refusal(kind: KindCluster, namespace: str, words: str) -> str:
    """Waits for the scheduler's event with these words; returns its message. Raises WaitTimeoutError."""

    def said() -> str | Unmet:
        events = kind.kube.list("events", namespace)
        messages = [str(one.get("message")) for one in events if one.get("reason") == "FailedScheduling"]
        return next((message for message in messages if words in message), None) or Unmet(messages)

    return wait_until(said, limits.ROLLOUT, f"a FailedScheduling event with {words!r}")
