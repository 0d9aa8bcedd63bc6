"""What keeps a pod off a node before GPUs are looked at, as far as it is simple: selector, cordon, taints.

The kube-scheduler judges these and more before it asks for a GPU; what is not judged here is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hetserve.objects.metadata import RawObject
from hetserve.objects.node import UNSCHEDULABLE, Node, Taint
from hetserve.objects.pod import Pod


def against_node(pod: RawObject, node: RawObject) -> tuple[str, ...]:
    """Why a node cannot take a pod whatever its GPUs hold; empty if none of the rules checked here refuses it."""
    spec, there = Pod(pod).spec, Node(node)
    return (*_selector(spec.get("nodeSelector") or {}, there), *_taints(spec.get("tolerations") or [], there))


def not_judged(pod: RawObject) -> tuple[str, ...]:
    """What else the scheduler looks at for this pod."""
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
        if taint.key == UNSCHEDULABLE:
            yield "the node is cordoned"
        else:
            value = f"={taint.value}" if taint.value else ""
            yield f"taint {taint.key}{value}:{taint.effect} is not tolerated"
