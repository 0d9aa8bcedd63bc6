"""A pod: where it is, what holds it back, what it requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hetserve.base.units import MiB, MilliCPU
from hetserve.objects import resources
from hetserve.objects.fields import LONGEST_NAME, integer, objects, text
from hetserve.objects.metadata import KubernetesObject, RawObject
from hetserve.objects.resources import CONTAINERS, GpusRequested

FINISHED: Final = frozenset({"Succeeded", "Failed"})
DEFAULT_SCHEDULER: Final = "default-scheduler"
TEMPLATE_HASH: Final = "pod-template-hash"
"""Label by which a Deployment tells its ReplicaSets apart."""


class Pod(KubernetesObject):
    __slots__ = ()

    @property
    def node(self) -> str | None:
        return text(self.spec.get("nodeName"), "spec.nodeName")

    @property
    def phase(self) -> str | None:
        return text(self.status.get("phase"), "status.phase")

    @property
    def finished(self) -> bool:
        return self.phase in FINISHED

    @property
    def gates(self) -> tuple[str, ...]:
        found = self.spec.get("schedulingGates")
        return (
            () if found is None else tuple([str(gate.get("name")) for gate in objects(found, "spec.schedulingGates")])
        )

    @property
    def scheduler(self) -> str:
        return (text(self.spec.get("schedulerName"), "spec.schedulerName") or DEFAULT_SCHEDULER)[:LONGEST_NAME]

    @property
    def deployment(self) -> str:
        """Name of the Deployment whose ReplicaSet made it, by the name that this asked for; empty: none."""
        digest = text(self.labels.get(TEMPLATE_HASH), f"label {TEMPLATE_HASH}") or ""
        asked = text(self.metadata.get("generateName"), "metadata.generateName") or ""
        name = asked.removesuffix(f"-{digest}-")
        return name[:LONGEST_NAME] if digest and name != asked else ""

    @property
    def priority(self) -> int:
        return integer(self.spec.get("priority"), "spec.priority")

    @property
    def containers(self) -> Sequence[Mapping[str, Any]]:
        return [container for field in CONTAINERS for container in objects(self.spec.get(field), field)]

    @property
    def gpus_requested(self) -> GpusRequested:
        return resources.gpus_requested(self.spec)

    @property
    def names_gpu(self) -> bool:
        """Whether a container names a resource of ours, so that the scheduler calls the extender."""
        return resources.names_gpu(self.spec)

    @property
    def cpu_requested(self) -> MilliCPU:
        return MilliCPU(resources.requested(self.spec, "cpu"))

    @property
    def memory_requested(self) -> MiB:
        return MiB(resources.requested(self.spec, "memory"))


class PodOutline:
    """Facts known even of a pod that cannot be read. Raises nothing.

    A part of the wrong type counts as absent; texts are cut to LONGEST_NAME characters.
    """

    __slots__ = ("metadata", "spec", "status")

    def __init__(self, raw: RawObject) -> None:
        metadata, spec, status = raw.get("metadata"), raw.get("spec"), raw.get("status")
        self.metadata = metadata if type(metadata) is dict else _or_empty(metadata)
        self.spec = spec if type(spec) is dict else _or_empty(spec)
        self.status = status if type(status) is dict else _or_empty(status)

    @property
    def uid(self) -> str:
        """The UID; NAMESPACE/NAME if absent."""
        return _cut(self.metadata.get("uid")) or f"{_cut(self.metadata.get('namespace'))}/{self.name}"

    @property
    def name(self) -> str:
        return _cut(self.metadata.get("name"))

    @property
    def namespace(self) -> str:
        return _cut(self.metadata.get("namespace")) or "default"

    @property
    def labels(self) -> Mapping[str, Any]:
        return _or_empty(self.metadata.get("labels"))

    @property
    def revision(self) -> str:
        return _cut(self.metadata.get("resourceVersion"))

    @property
    def node(self) -> str:
        return _cut(self.spec.get("nodeName"))

    @property
    def finished(self) -> bool:
        return _cut(self.status.get("phase")) in FINISHED

    @property
    def gated(self) -> bool:
        return bool(self.spec.get("schedulingGates"))

    @property
    def gates(self) -> frozenset[str]:
        found = self.spec.get("schedulingGates")
        gates = found if isinstance(found, list | tuple) else ()
        return frozenset(str(gate.get("name")) for gate in gates if isinstance(gate, Mapping))

    @property
    def may_have_gpus(self) -> bool:
        """Whether a container names what gives GPUs, or cannot be read."""
        return resources.may_have_gpus(self.spec)


def _or_empty(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _cut(value: object) -> str:
    return value[:LONGEST_NAME] if isinstance(value, str) else ""
