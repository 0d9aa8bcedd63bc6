"""Judges the simple rules that keep a pod off a node: selector, cordon, taints.

The kube-scheduler applies these and more before it calls the extender; `not_judged` names the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

from hetserve.objects.metadata import RawObject
from hetserve.objects.node import UNSCHEDULABLE, Node, Taint
from hetserve.objects.pod import Pod


@dataclass(frozen=True, slots=True)
class WrongLabel:
    """The pod's nodeSelector wants another value; `found`: the node's, None if it has none."""

    key: str
    wanted: str
    found: str | None


@dataclass(frozen=True, slots=True)
class Cordoned:
    """The node is unschedulable, and the pod does not tolerate it."""


@dataclass(frozen=True, slots=True)
class NotTolerated:
    """The pod does not tolerate a taint."""

    taint: Taint


NodeRule = WrongLabel | Cordoned | NotTolerated


def rule_text(rule: NodeRule) -> str:
    """The words of a rule that refuses a node."""
    match rule:
        case WrongLabel(key, wanted, found):
            has = "has none" if found is None else f"has {found!r}"
            return f"nodeSelector {key}={wanted}: the node {has}"
        case Cordoned():
            return "the node is cordoned"
        case NotTolerated(taint):
            value = f"={taint.value}" if taint.value else ""
            return f"taint {taint.key}{value}:{taint.effect} is not tolerated"
        case _:
            assert_never(rule)


def against_node(pod: RawObject, node: RawObject) -> tuple[NodeRule, ...]:
    """Rules, apart from GPUs, that keep a pod off a node; empty if none does."""
    spec, there = Pod(pod).spec, Node(node)
    return (*_selector(spec.get("nodeSelector") or {}, there), *_taints(spec.get("tolerations") or [], there))


def not_judged(pod: RawObject) -> tuple[str, ...]:
    """Names of the scheduler's other rules that apply to this pod."""
    spec, containers = Pod(pod).spec, Pod(pod).containers
    affinity = spec.get("affinity") or {}
    found = [f"affinity.{kind}" for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity") if affinity.get(kind)]
    found += ["topologySpreadConstraints"] if spec.get("topologySpreadConstraints") else []
    asked = {name for container in containers for name in ((container.get("resources") or {}).get("requests") or {})}
    found += [name for name in sorted(asked) if not name.startswith("hetserve.io/")]
    found += ["volumes"] if any(volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or []) else []
    found += ["host ports"] if any(port.get("hostPort") for c in containers for port in c.get("ports") or []) else []
    return tuple(found)


def _selector(wanted: Mapping[str, str], node: Node) -> Iterator[NodeRule]:
    labels = node.labels
    for key, value in sorted(wanted.items()):
        if labels.get(key) != value:
            yield WrongLabel(key, value, labels.get(key))


def _taints(tolerations: Sequence[RawObject], node: Node) -> Iterator[NodeRule]:
    taints = [taint for taint in node.taints if taint.repels]
    if node.cordoned and not any(taint.key == UNSCHEDULABLE for taint in taints):
        taints.append(Taint(UNSCHEDULABLE, effect="NoSchedule"))
    for taint in taints:
        if any(map(taint.is_tolerated_by, tolerations)):
            continue
        yield Cordoned() if taint.key == UNSCHEDULABLE else NotTolerated(taint)
