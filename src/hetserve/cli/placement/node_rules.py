"""Judges the simple rules that keep a pod off a node: selector, cordon, taints.

The kube-scheduler applies these and more before it calls the extender; `not_judged` names the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

RawObject = Mapping[str, Any]
_REPELLING: Final = ("NoSchedule", "NoExecute")
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"


def against_node(pod: RawObject, node: RawObject) -> tuple[str, ...]:
    """Reasons why a node cannot take a pod, apart from GPUs; empty if no judged rule refuses it."""
    spec = pod.get("spec") or {}
    return (*_selector(spec.get("nodeSelector") or {}, node), *_taints(spec.get("tolerations") or [], node))


def not_judged(pod: RawObject) -> tuple[str, ...]:
    """Names of the scheduler's other rules that apply to this pod."""
    spec = pod.get("spec") or {}
    affinity = spec.get("affinity") or {}
    found = [f"affinity.{kind}" for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity") if affinity.get(kind)]
    found += ["topologySpreadConstraints"] if spec.get("topologySpreadConstraints") else []
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    asked = {name for container in containers for name in ((container.get("resources") or {}).get("requests") or {})}
    found += [name for name in sorted(asked) if not name.startswith("hetserve.io/")]
    found += ["volumes"] if any(volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or []) else []
    found += ["host ports"] if any(port.get("hostPort") for c in containers for port in c.get("ports") or []) else []
    return tuple(found)


def _selector(wanted: Mapping[str, str], node: RawObject) -> Iterator[str]:
    labels = (node.get("metadata") or {}).get("labels") or {}
    for key, value in sorted(wanted.items()):
        if labels.get(key) != value:
            has = f"has {labels[key]!r}" if key in labels else "has none"
            yield f"nodeSelector {key}={value}: the node {has}"


def _taints(tolerations: Sequence[RawObject], node: RawObject) -> Iterator[str]:
    spec = node.get("spec") or {}
    taints = [taint for taint in spec.get("taints") or [] if taint.get("effect") in _REPELLING]
    if spec.get("unschedulable") and not any(taint.get("key") == _UNSCHEDULABLE for taint in taints):
        taints.append({"key": _UNSCHEDULABLE, "effect": "NoSchedule"})
    for taint in taints:
        if any(_tolerates(toleration, taint) for toleration in tolerations):
            continue
        if taint["key"] == _UNSCHEDULABLE:
            yield "the node is cordoned"
        else:
            value = f"={taint['value']}" if taint.get("value") else ""
            yield f"taint {taint['key']}{value}:{taint['effect']} is not tolerated"


def _tolerates(toleration: RawObject, taint: RawObject) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    key, exists = toleration.get("key"), toleration.get("operator") == "Exists"
    if not key:
        return exists
    return key == taint["key"] and (exists or (toleration.get("value") or "") == (taint.get("value") or ""))
