"""What one instance costs: by itself, by the memory that it takes of a GPU, or by its largest share of the GPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from hetserve.api.instance_type import InstanceType
from hetserve.base.units import MiB, MicroDollarsPerHour, Percent, parse_money, quantity_to_mib
from hetserve.objects.gpu_sharing import ONE, SharingTerms
from hetserve.profiles.sharing import WHOLE
from hetserve.registry.choices import PricedPer

UNBOOKED: Final = Percent(0)


@dataclass(frozen=True, slots=True)
class UnitPrice:
    """hourly: micro-dollars of one unit: an instance, a GiB of GPU memory, or a whole GPU with `gpu` MiB."""

    hourly: MicroDollarsPerHour
    per: PricedPer
    gpu: MiB = MiB(0)

    @classmethod
    def of(cls, instance_type: InstanceType) -> UnitPrice:
        price, gpu = instance_type.spec.price, instance_type.spec.gpu
        return cls(parse_money(price.hourly), price.per, MiB(0) if gpu is None else quantity_to_mib(gpu.memory))

    def instance(
        self, memory: MiB, compute: Percent = UNBOOKED, terms: SharingTerms | None = None, *, copies: bool = False
    ) -> MicroDollarsPerHour:
        """Micro-dollars/h of an instance that takes this of a GPU, rounded up once; arguments as of `largest_share`."""
        match self.per:
            case "Instance":
                return self.hourly
            case "GiB":
                units = Fraction(memory, 1024)
            case "GPU":
                units = largest_share(self.gpu, memory, compute, terms, copies=copies)
        return MicroDollarsPerHour(math.ceil(self.hourly * units))


def largest_share(
    gpu: MiB, memory: MiB, compute: Percent = UNBOOKED, terms: SharingTerms | None = None, *, copies: bool = False
) -> Fraction:
    """The largest share that an instance takes of a GPU, at most 1.

    As many alike of other models as it pays for fit on one GPU. One more does not where memory or u is the largest.
    Where what it adds to others' times is, one more may, and no second: nobody adds to its own times.

    gpu, memory: MiB of the GPU and of the instance. compute: percent that it books; unread beside terms. terms: u of a
    total of s, and the most that it adds to others' times of the s - 1 that one like it tolerates. copies: whether
    instances of its own model may be among those others; what it adds to their times is not counted where not.
    """
    shares = [Fraction(memory, gpu)]
    if terms is None:
        shares.append(Fraction(compute, WHOLE))
    else:
        shares.append(Fraction(terms.share, terms.tolerance))
        if adds := terms.greatest if copies else terms.others:
            left = terms.tolerance - ONE
            shares.append(Fraction(adds, left) if left else Fraction(1))
    return min(max(shares), Fraction(1))
