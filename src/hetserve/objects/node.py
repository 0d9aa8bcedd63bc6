"""A node: labels, taints, and what pods may have of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from hetserve.base.units import MiB, MilliCPU, quantity_to_mib, quantity_to_millicpu
from hetserve.objects.fields import mapping, objects
from hetserve.objects.metadata import KubernetesObject

UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"


class Taint(NamedTuple):
    key: str
    value: str = ""
    effect: str = ""

    @property
    def repels(self) -> bool:
        """Whether the taint keeps pods off; PreferNoSchedule does not."""
        return self.effect in ("NoSchedule", "NoExecute")

    def is_tolerated_by(self, toleration: Mapping[str, Any]) -> bool:
        """Toleration.ToleratesTaint: an empty key with Exists is every taint, an empty effect every effect."""
        if toleration.get("effect") not in (None, "", self.effect):
            return False
        key, exists = toleration.get("key"), toleration.get("operator") == "Exists"
        if not key:
            return exists
        return key == self.key and (exists or (toleration.get("value") or "") == self.value)


class Node(KubernetesObject):
    __slots__ = ()

    @property
    def taints(self) -> tuple[Taint, ...]:
        found = objects(self.spec.get("taints"), "spec.taints")
        return tuple(Taint(*(str(taint.get(part) or "") for part in Taint._fields)) for taint in found)

    @property
    def cordoned(self) -> bool:
        return bool(self.spec.get("unschedulable"))

    @property
    def ready(self) -> bool:
        return self.condition("Ready").get("status") == "True"

    @property
    def cpu(self) -> MilliCPU:
        """CPU for pods. Raises ValueError for a wrong quantity."""
        return quantity_to_millicpu(str(self._allocatable.get("cpu", "0")))

    @property
    def memory(self) -> MiB:
        """Memory for pods. Raises as `cpu`."""
        return quantity_to_mib(str(self._allocatable.get("memory", "0")))

    @property
    def extended_resources(self) -> dict[str, str]:
        """What device plugins offer pods, by resource: names with a domain."""
        return {str(name): str(amount) for name, amount in self._allocatable.items() if "/" in str(name)}

    @property
    def _allocatable(self) -> Mapping[str, Any]:
        return mapping(self.status.get("allocatable"), "status.allocatable")
