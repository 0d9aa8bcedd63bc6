"""A joining policy: which variant serves how many queries, from the head of the queue, on an idle instance.

All of them share one compiled loop: a policy is a rule of `hetserve.dispatch.joining.kernel` and the numbers that it
prepares for a model. Tests compare each with a plain reference, in `tests/support/testing/plain_joining.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hetserve.dispatch.interface import ScratchSizes, no_scratch


@dataclass(frozen=True, slots=True)
class Variant:
    """One of the networks that serve a model. accuracy: percent; utility: worth of an answer in time, default 1."""

    name: str
    accuracy: float
    utility: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.accuracy <= 100:
            raise ValueError(f"variant {self.name}: accuracy {self.accuracy}: must be between 0 and 100 percent")
        if not (math.isfinite(self.utility) and self.utility >= 0):
            raise ValueError(f"variant {self.name}: utility {self.utility}: must be at least 0")


@dataclass(frozen=True, slots=True, eq=False)
class VariantModel:
    """Variants on instance types as a policy sees them.

    mean [type, variant, items - 1]: predicted seconds, infinite if not servable. variants: of rising accuracy. switches
    [type]: seconds. slo, grace: seconds to the deadline, and from there until an answer is worth nothing.
    """

    types: tuple[str, ...]
    variants: tuple[Variant, ...]
    mean: NDArray[np.float64]
    switches: NDArray[np.float64]
    slo: float
    grace: float

    def index_of(self, variant: str) -> int:
        """Raises ValueError for a variant that there is not."""
        names = [one.name for one in self.variants]
        if variant not in names:
            raise ValueError(f"no variant {variant}; there are: {', '.join(names)}")
        return names.index(variant)


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """What a policy works out once for a model.

    times [type, variant, items - 1]: the service times that it plans with, infinite: never used. parameters: what else
    its rule reads. window: of the arrivals that it looks back on [s], 0: none.
    """

    times: NDArray[np.float64]
    parameters: Sequence[float] | NDArray[np.float64] = ()
    window: float = 0.0


def as_predicted(model: VariantModel) -> Prepared:
    """All variants, with their predicted times."""
    return Prepared(model.mean)


BY_ARRIVAL: Final = 1
BY_DEADLINE: Final = 2
BY_BIN: Final = 3
BIN: Final = 0.2
"""Length of a bin of deadlines [s] (Fang et al., section 4.2)."""


@dataclass(frozen=True, slots=True)
class JoiningPolicy:
    """One joining policy.

    rule: of `kernel`. order: of the queue, BY_DEADLINE (earliest first, then by arrival), BY_BIN (the same, of
    deadlines in bins) or BY_ARRIVAL. drops: whether the queue loses its head when not even the fastest of the variants,
    for it alone, answers before that is worth nothing.
    """

    name: str
    rule: int
    prepare: Callable[[VariantModel], Prepared] = as_predicted
    order: int = BY_DEADLINE
    drops: bool = True
    scratch: ScratchSizes = no_scratch
