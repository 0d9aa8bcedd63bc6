"""Arrivals of rates that are given in their own words: bursts beside an even stream, and a rate that speeds up.

SuperServe (NSDI'25), section 6, "traces". Drawn from a generator, so that a seed gives the same ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from hetserve.base.units import parse_number
from hetserve.registry.choices import Arrivals

MOST_CV2: Final = 1000.0
"""Beyond, gaps of whole runs are rounded to nothing."""
MOST_RATE: Final = 1e9


@dataclass(frozen=True, slots=True)
class Bursty:
    """An even stream and a bursty one together.

    base: queries/s at equal gaps. variable: queries/s at gamma-distributed gaps of squared coefficient of variation
    `cv2`. Both at least 0, one above. Raises ValueError.
    """

    base: float
    variable: float
    cv2: float

    kind: ClassVar = Arrivals.BURSTY
    form: ClassVar = "bursty:BASE,VAR,CV2"

    def __post_init__(self) -> None:
        _check("BASE", self.base, 0 <= self.base <= MOST_RATE, f"from 0 to {MOST_RATE:g} queries/s")
        _check("VAR", self.variable, 0 <= self.variable <= MOST_RATE, f"from 0 to {MOST_RATE:g} queries/s")
        if self.base + self.variable == 0:
            raise ValueError("BASE and VAR are both 0: one of them must bring queries")
        _check_cv2(self.cv2)

    def __str__(self) -> str:
        return f"bursty:{self.base:g},{self.variable:g},{self.cv2:g}"

    def rate(self, queries: int) -> float:  # noqa: ARG002  as of a ramp
        """Mean queries/s of so many queries."""
        return self.base + self.variable

    def times(self, queries: int, source: np.random.Generator) -> NDArray[np.float64]:
        """[query] Arrival times in seconds, rising from 0 on."""
        even = np.arange(1, queries + 1) / self.base if self.base else np.empty(0)
        bursts = np.cumsum(_gaps(self.cv2, queries, source)) / self.variable if self.variable else np.empty(0)
        return np.sort(np.concatenate([even, bursts]), kind="stable")[:queries]


@dataclass(frozen=True, slots=True)
class Ramp:
    """A rate that goes from `first` to `last` queries/s by `acceleration` queries/s each second, and stays there.

    Gaps, in units of the mean one at their time, are gamma-distributed of squared coefficient of variation `cv2`.
    All above 0 but cv2. Raises ValueError.
    """

    first: float
    last: float
    acceleration: float
    cv2: float

    kind: ClassVar = Arrivals.RAMP
    form: ClassVar = "ramp:Q1,Q2,TAU,CV2"

    def __post_init__(self) -> None:
        for name, value in (("Q1", self.first), ("Q2", self.last)):
            _check(name, value, 0 < value <= MOST_RATE, f"above 0 and at most {MOST_RATE:g} queries/s")
        _check("TAU", self.acceleration, 0 < self.acceleration < math.inf, "above 0 queries/s in each second")
        _check_cv2(self.cv2)

    def __str__(self) -> str:
        return f"ramp:{self.first:g},{self.last:g},{self.acceleration:g},{self.cv2:g}"

    def rate(self, queries: int) -> float:
        """Mean queries/s of so many queries."""
        return queries / float(self._when(np.array([float(queries)]))[0])

    def times(self, queries: int, source: np.random.Generator) -> NDArray[np.float64]:
        """[query] Arrival times in seconds, rising from 0 on."""
        return self._when(np.cumsum(_gaps(self.cv2, queries, source)))

    def _when(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Times [s] by which so many queries are expected: the inverse of the integral of the rate."""
        slope = math.copysign(self.acceleration, self.last - self.first)
        until = (self.last - self.first) / slope
        risen = (self.first + self.last) / 2 * until
        # The root of first t + slope t^2 / 2 = n, written so that a small slope loses no digits.
        root = np.sqrt(np.maximum(self.first**2 + 2 * slope * np.minimum(numbers, risen), 0.0))
        rising = 2 * np.minimum(numbers, risen) / (self.first + root)
        return np.where(numbers < risen, rising, until + (numbers - risen) / self.last)


Traced = Bursty | Ramp
"""Arrivals that are drawn at a rate of their own."""
FORMS: Final = (Bursty.form, Ramp.form)


def parse_arrivals(text: str) -> Traced | None:
    """Arrivals of a text such as ``bursty:1500,5500,8`` or ``ramp:2500,7400,250,8``; None: it begins otherwise.

    Raises ValueError, which names the number that is wrong.
    """
    name, _, rest = text.partition(":")
    kinds: dict[str, type[Bursty] | type[Ramp]] = {"bursty": Bursty, "ramp": Ramp}
    kind = kinds.get(name)
    if kind is None:
        return None
    wanted, parts = kind.form.partition(":")[2].split(","), rest.split(",")
    if len(parts) != len(wanted):
        raise ValueError(f"{text!r} has {len(parts)} numbers after the colon; write {kind.form}")
    try:
        return kind(*(_number(one, part) for one, part in zip(wanted, parts, strict=True)))
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}; write {kind.form}") from None


def _number(name: str, text: str) -> float:
    try:
        return parse_number(text)
    except ValueError:
        raise ValueError(f"{name} {text!r} is not a number") from None


def _check(name: str, value: float, is_right: bool, right: str) -> None:
    if not is_right:
        raise ValueError(f"{name} {value:g} must be {right}")


def _check_cv2(value: float) -> None:
    _check("CV2", value, 0 <= value <= MOST_CV2, f"from 0 (equal gaps) to {MOST_CV2:g}")


def _gaps(cv2: float, queries: int, source: np.random.Generator) -> NDArray[np.float64]:
    """[query] Gamma-distributed gaps of mean 1."""
    return source.gamma(1 / cv2, cv2, queries) if cv2 else np.ones(queries)
