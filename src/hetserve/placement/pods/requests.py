"""What a pod requests of GPUs: how much of how many, which, beside whom, by which policy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NewType

from hetserve.api import names
from hetserve.base.units import MiB, Percent, format_ratio
from hetserve.objects.gpu_sharing import SharingTerms, Tenant, booked_percent
from hetserve.objects.resources import MAX_GPUS_PER_NODE, WHOLE_COMPUTE
from hetserve.placement.values import value
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, default_placement_policy
from hetserve.sanitize import sanitize

LONGEST_GPU_ID: Final = 63
LONGEST_LIST: Final = MAX_GPUS_PER_NODE * (LONGEST_GPU_ID + 1)
MOST_WISHES: Final = 128
LONGEST_WISHES: Final = MOST_WISHES * (LONGEST_GPU_ID + 1)
"""Characters of a pod's lists of GPUs and products together: a waiting pod's are kept in memory."""
_SHOWN: Final = 3
_LONG: Final = 63


class AntiAffinity(Enum):
    """Whether a pod may share a GPU with another of its namespace and model: only if both say NONE."""

    HARD = "Hard"
    NONE = "None"


class Sharing(Enum):
    """How the compute of a GPU that a pod shares is counted, as words about the pod; kinds never mix on a GPU."""

    UNDECLARED = "declares no compute"
    BOOKED = "declares compute"
    PAIRED = f"shares by annotation {names.ANNOTATION_GPU_SHARING}"


ModelKey = tuple[str, str]
"""Namespace and name of a model: two namespaces may call different models the same."""

PolicyName = NewType("PolicyName", str)
DEFAULT_POLICY: Final = PolicyName(default_placement_policy())


def policy_name(text: str) -> PolicyName:
    """A name of PLACEMENT_POLICIES. Raises ValueError."""
    if text not in PLACEMENT_POLICIES:
        raise ValueError(f"{text!r} is no placement policy; there are: {', '.join(PLACEMENT_POLICIES.names)}")
    return PolicyName(text)


@dataclass(frozen=True, slots=True)
class GpuSelector:
    """Which GPUs a pod accepts; empty lists accept all."""

    products: tuple[str, ...] = ()
    products_excluded: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    ids_excluded: tuple[str, ...] = ()

    @property
    def accepts_all(self) -> bool:
        return not (self.products or self.products_excluded or self.ids or self.ids_excluded)

    def accepts(self, id_: str, product: str) -> bool:
        wanted = (not self.products or product in self.products) and (not self.ids or id_ in self.ids)
        return wanted and product not in self.products_excluded and id_ not in self.ids_excluded

    def __str__(self) -> str:
        parts = [
            (self.products, "of product {}"),
            (self.products_excluded, "of another product than {}"),
            (self.ids, "with id {}"),
            (self.ids_excluded, "with another id than {}"),
        ]
        return sanitize(" and ".join(template.format(_few(values)) for values, template in parts if values))


def _few(values: tuple[str, ...]) -> str:
    shown = [value if len(value) <= _LONG else value[: _LONG - 3] + "..." for value in values[:_SHOWN]]
    more = [f"{len(values) - _SHOWN} others"] if len(values) > _SHOWN else []
    return " or ".join([*shown, *more])


ANY_GPU: Final = GpuSelector()


@value(frozen=True, slots=True)
class GpuRequest:
    """`gpus` GPUs of one node, with `memory_mib` on each, or `whole` and idle ones (memory_mib 0).

    `compute`: percent of the compute of each GPU, 1 to 100; None: not declared. `sharing`: terms on which it shares
    them, counted by pairs, with compute 100; None: by memory and percent alone. `model` None: no anti-affinity.
    `policy` None: the installation's. `deployment`: name of the one that it is of; empty: none.
    """

    uid: str
    namespace: str
    name: str
    memory_mib: MiB
    model: str | None = None
    gpus: int = 1
    whole: bool = False
    anti_affinity: AntiAffinity = AntiAffinity.HARD
    policy: PolicyName | None = None
    selector: GpuSelector = ANY_GPU
    priority: int = 0
    compute: Percent | None = None
    deployment: str = ""
    sharing: SharingTerms | None = None

    def identity(self) -> dict[str, str | None]:
        return {"namespace": self.namespace, "name": self.name, "uid": self.uid, "model": self.model}

    @property
    def model_key(self) -> ModelKey | None:
        """What no two pods on a GPU have in common; None: no anti-affinity."""
        return None if self.model is None else (self.namespace, self.model)

    @property
    def needs_gpu(self) -> bool:
        return self.whole or self.memory_mib > 0

    @property
    def claim(self) -> tuple[object, ...]:
        amounts = self.memory_mib, self.compute, self.sharing, self.gpus, self.whole
        return *amounts, self.model, self.anti_affinity, self.selector

    @property
    def booked_compute(self) -> Percent:
        """Percent that it asks of each of its GPUs: all of a whole one, 0 if none is declared."""
        return WHOLE_COMPUTE if self.whole else self.compute or Percent(0)

    @property
    def least_compute(self) -> Percent:
        """Percent that it takes of each of its GPUs where it is alone: of terms, its share of its tolerance."""
        return self.booked_compute if self.sharing is None else booked_percent([self.tenant(self.sharing)])

    def tenant(self, terms: SharingTerms) -> Tenant:
        """The pod on a GPU that it shares on terms."""
        return Tenant(self.namespace, self.model, terms)

    @property
    def kind(self) -> Sharing:
        """How its compute is counted; BOOKED of whole GPUs."""
        if self.sharing is not None:
            return Sharing.PAIRED
        return Sharing.UNDECLARED if self.shares_undeclared else Sharing.BOOKED

    @property
    def shares_undeclared(self) -> bool:
        """Whether it shares GPUs and declares no compute: then only with others of its kind."""
        return self.compute is None and not self.whole

    @property
    def amount(self) -> str:
        """In words: "4096 MiB", "4096 MiB and 40 percent of compute on each of 2 GPUs", "2 whole GPUs"."""
        if self.whole:
            return f"{self.gpus} whole {'GPU' if self.gpus == 1 else 'GPUs'}"
        return self.share + (f" on each of {self.gpus} GPUs" if self.gpus > 1 else "")

    @property
    def share(self) -> str:
        """What it shares of each GPU: "4096 MiB", "4096 MiB and 40 percent of compute"."""
        memory = f"{self.memory_mib} MiB"
        if self.sharing is not None:
            share, tolerance = format_ratio(self.sharing.share), format_ratio(self.sharing.tolerance)
            return f"{memory} and {share} of compute, slowed at most {tolerance} times"
        return memory if self.compute is None else f"{memory} and {self.compute} percent of compute"
