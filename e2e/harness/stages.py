"""How KWOK plays pods: at once by default, or each instance type after its launch time."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from harness.kubelet import IMAGE
from harness.kube import Manifest, Manifests, read_manifests
from hetserve.api.names import LABEL_INSTANCE_TYPE
from hetserve.base.units import parse_duration

DEFAULTS: Final = Path(__file__).with_name("stages.yaml")
WORKERS: Final = Path(__file__).with_name("stages-workers.yaml")
DRAIN: Final[dict[str, Any]] = {"durationFrom": {"jq": {"expression": ".metadata.deletionTimestamp"}}}


def default_stages() -> Manifests:
    """Nodes are ready, pods Ready and gone at once; the pods of Jobs succeed. Pods of workers follow their workers."""
    return [_selecting(stage, "DoesNotExist") for stage in read_manifests(DEFAULTS)] + [
        _selecting(stage, "Exists") for stage in read_manifests(WORKERS)
    ]


def _selecting(stage: Manifest, operator: str) -> Manifest:
    """A stage of pods, for those with a worker's container, or without."""
    if stage["spec"]["resourceRef"]["kind"] == "Pod":
        worker = f'.spec.containers[].image | select(test("{IMAGE}"))'
        stage["spec"]["selector"]["matchExpressions"].append({"key": worker, "operator": operator})
    return stage


def launch_stages(
    types: Iterable[Manifest], *, scale: float = 1.0, jitter: float = 0.0, drain: bool = False
) -> Manifests:
    """Stages that play the launch times of InstanceTypes.

    A pod of a type becomes Ready between `scale * launchTime` and that times `1 + jitter` seconds after it was bound
    (or edited while it launches), drawn uniformly. drain: a deleted pod stays until its grace period is over.
    Raises ValueError if scale or jitter is negative.
    """
    for name, value in (("scale", scale), ("jitter", jitter)):
        if not value >= 0:
            raise ValueError(f"{name}: {value:g} of launch times; must be 0 or more")
    return [stage for type_ in types for stage in _stages_of(type_, scale, jitter, drain)]


def launch_name(instance_type: str) -> str:
    return f"launch-{instance_type}"


def drain_name(instance_type: str) -> str:
    return f"drain-{instance_type}"


def _stages_of(type_: Manifest, scale: float, jitter: float, drain: bool) -> Iterator[Manifest]:
    instance_type = type_["metadata"]["name"]
    shortest = parse_duration(type_["spec"].get("launchTime", "0s")) * scale
    delay: dict[str, Any] = {"durationMilliseconds": round(shortest * 1e3)}
    if jitter:
        delay["jitterDurationMilliseconds"] = round(shortest * (1 + jitter) * 1e3)
    yield _for_type("pod-ready", launch_name(instance_type), instance_type, delay)
    if drain:
        yield _for_type("pod-delete", drain_name(instance_type), instance_type, DRAIN)


def _for_type(default: str, name: str, instance_type: str, delay: dict[str, Any]) -> Manifest:
    """A default stage, delayed for the pods of one type; its weight wins over the default's."""
    stage = copy.deepcopy(next(s for s in default_stages() if s["metadata"]["name"] == default))
    stage["metadata"]["name"] = name
    stage["spec"]["selector"]["matchLabels"] = {LABEL_INSTANCE_TYPE: instance_type}
    return stage | {"spec": stage["spec"] | {"delay": delay, "weight": 1}}
