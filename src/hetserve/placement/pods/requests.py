"""What a pod asks of the GPUs, as values: how much of how many, which, beside whom, chosen by which policy."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, NewType

from hetserve.objects.resources import MAX_GPUS_PER_NODE
from hetserve.placement.values import value
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, default_placement_policy
from hetserve.sanitize import sanitize
from hetserve.units import MiB

LONGEST_GPU_ID: Final = 63
"""Characters; the UUID of a MIG device has 48."""
LONGEST_LIST: Final = MAX_GPUS_PER_NODE * (LONGEST_GPU_ID + 1)
"""Characters of a list of GPUs of a node."""
MOST_WISHES: Final = 128
LONGEST_WISHES: Final = MOST_WISHES * (LONGEST_GPU_ID + 1)
"""Entries, and characters, of all the lists together of GPUs and products that a pod wants or does not.

They are kept as long as the pod is there, and a pod that waits at a gate costs whoever made it nothing.
"""
_SHOWN: Final = 3
_LONG: Final = 63


class AntiAffinity(Enum):
    """Whether a pod may share a GPU with another instance of its model: only if both say NONE."""

    HARD = "Hard"
    NONE = "None"


PolicyName = NewType("PolicyName", str)
"""Name of a placement policy, which says in which order GPUs that fit are preferred."""
DEFAULT_POLICY: Final = PolicyName(default_placement_policy())
"""Policy of an installation that names none."""


def policy_name(text: str) -> PolicyName:
    """A name of PLACEMENT_POLICIES. Raises ValueError for a text that is none."""
    if text not in PLACEMENT_POLICIES:
        raise ValueError(f"{text!r} is no placement policy; there are: {', '.join(PLACEMENT_POLICIES.names)}")
    return PolicyName(text)


@dataclass(frozen=True, slots=True)
class GpuSelector:
    """Which GPUs a pod accepts; an empty list of products or ids accepts all."""

    products: tuple[str, ...] = ()
    products_excluded: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    ids_excluded: tuple[str, ...] = ()

    @property
    def accepts_all(self) -> bool:
        return not (self.products or self.products_excluded or self.ids or self.ids_excluded)

    def accepts(self, id_: str, product: str) -> bool:
        """Whether one GPU is accepted."""
        wanted = (not self.products or product in self.products) and (not self.ids or id_ in self.ids)
        return wanted and product not in self.products_excluded and id_ not in self.ids_excluded

    def __str__(self) -> str:
        """What is accepted, to follow "no GPU" in a refusal."""
        parts = [
            (self.products, "of product {}"),
            (self.products_excluded, "of another product than {}"),
            (self.ids, "with id {}"),
            (self.ids_excluded, "with another id than {}"),
        ]
        return sanitize(" and ".join(words.format(_few(values)) for values, words in parts if values))


def _few(values: tuple[str, ...]) -> str:
    """Some of the values: the text is repeated for every node that is refused, and events are cut."""
    shown = [value if len(value) <= _LONG else value[: _LONG - 3] + "..." for value in values[:_SHOWN]]
    more = [f"{len(values) - _SHOWN} others"] if len(values) > _SHOWN else []
    return " or ".join([*shown, *more])


ANY_GPU: Final = GpuSelector()


@value(frozen=True, slots=True)
class GpuRequest:
    """`gpus` GPUs of one node, with `memory_mib` on each, or `whole` and idle ones (memory_mib is 0 then).

    `model` None means no anti-affinity; `policy` None means that of the installation.
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

    def identity(self) -> dict[str, str | None]:
        """The pod and its model, as JSON shows them."""
        return {"namespace": self.namespace, "name": self.name, "uid": self.uid, "model": self.model}

    @property
    def needs_gpu(self) -> bool:
        return self.whole or self.memory_mib > 0

    @property
    def claim(self) -> tuple[object, ...]:
        """All that decides which GPUs can be had; two requests with one claim can take each other's."""
        return self.memory_mib, self.gpus, self.whole, self.model, self.anti_affinity, self.selector

    @property
    def amount(self) -> str:
        """What is asked for, in words: "4096 MiB", "4096 MiB on each of 2 GPUs", "2 whole GPUs"."""
        if self.whole:
            return f"{self.gpus} whole {'GPU' if self.gpus == 1 else 'GPUs'}"
        return f"{self.memory_mib} MiB" + (f" on each of {self.gpus} GPUs" if self.gpus > 1 else "")
