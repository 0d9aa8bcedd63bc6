"""Rules that keep a pod off a node: selector, cordon, taints; `not_judged` names the scheduler's others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hetserve.objects.metadata import RawObject
from hetserve.objects.node import UNSCHEDULABLE, Node, Taint
from hetserve.objects.pod import Pod


def against_node(pod: RawObject, node: RawObject) -> tuple[str, ...]:
    """Rules, apart from GPUs, that refuse a node, in words."""
    spec, there = Pod(pod).spec, Node(node)
    return (*_selector(spec.get("nodeSelector") or {}, there), *_taints(spec.get("tolerations") or [], there))


def not_judged(pod: RawObject) -> tuple[str, ...]:
    """The scheduler's other rules that apply to this pod."""
    spec, containers = Pod(pod).spec, Pod(pod).containers
    affinity = spec.get("affinity") or {}
    found = [f"affinity.{kind}" for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity") if affinity.get(kind)]
    found += ["topologySpreadConstraints"] if spec.get("topologySpreadConstraints") else []
    asked = {name for container in containers for name in ((container.get("resources") or {}).get("requests") or {})}
    found += [name for name in sorted(asked) if not name.startswith("hetserve.io/")]
    found += ["volumes"] if any(volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or []) else []
    found += ["host ports"] if any(port.get("hostPort") for c in containers for port in c.get("ports") or []) else []
    return tuple(found)


def _selector(wanted: Mapping[str, str], node: Node) -> Iterator[str]:
    labels = node.labels
    for key, value in sorted(wanted.items()):
        if labels.get(key) != value:
            has = f"has {labels[key]!r}" if key in labels else "has none"
            yield f"nodeSelector {key}={value}: the node {has}"


def _taints(tolerations: Sequence[RawObject], node: Node) -> Iterator[str]:
    taints = [taint for taint in node.taints if taint.repels]
    if node.cordoned and not any(taint.key == UNSCHEDULABLE for taint in taints):
        taints.append(Taint(UNSCHEDULABLE, effect="NoSchedule"))
    for taint in taints:
        if any(map(taint.is_tolerated_by, tolerations)):
            continue
        value = f"={taint.value}" if taint.value else ""
        not_tolerated = f"taint {taint.key}{value}:{taint.effect} is not tolerated"
        yield "the node is cordoned" if taint.key == UNSCHEDULABLE else not_tolerated
