"""Compute shares and interference, and the terms on which they let an instance share a GPU.

While it serves, an instance is slowed by at most max(sum of u, 1 + sum of (f - 1)): u are the compute shares of all
that serve on its GPU, f the factors that its neighbours inflict. Shares and factors are integer millionths, so that no
sum passes the limit by rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hetserve.api.model_profile import ModelProfileSpec
from hetserve.base.units import Millionths, Percent, format_ratio, parse_ratio
from hetserve.objects.gpu_sharing import ONE, SharingTerms
from hetserve.registry.choices import SharingMode

WHOLE: Final = Percent(100)
BOOKED_SLOWDOWN: Final = Millionths(1_250_000)
"""Sigma of recorded plans that book a percentage of a GPU's compute, where the installation did not set another."""
MOST_SLOWED: Final = Millionths(10**12)
"""The most that terms can say."""
STEP: Final = 5
"""Bookings are multiples of this many percent: few distinct sizes leave fewer gaps."""


UNMEASURED_FACTOR: Final[Mapping[SharingMode, Millionths]] = {"TimeSlicing": ONE, "MPS": Millionths(1_180_000)}
"""Factor of a profile without interference. In time-slicing kernels take turns: the share says all. Under MPS they run
side by side: what 90 % of HetSev's pairs stay below (its Figure 3)."""


class NotShareableError(ValueError):
    """Nobody can be beside the instance: it can only run alone on its GPU."""


@dataclass(frozen=True, slots=True)
class Interference:
    """factor: latency of `model` at `batch` beside the profile's model / its latency alone, at least 1."""

    model: str
    batch: int
    factor: Millionths


@dataclass(frozen=True, slots=True)
class ComputeShare:
    """What a profile says of sharing: share of the GPU's compute while it serves, and what it does to others.

    model: the profile's own, of which copies may be among the neighbours that were measured.
    """

    share: Millionths
    mode: SharingMode
    interference: tuple[Interference, ...] = ()
    model: str = ""

    @property
    def greatest_factor(self) -> Millionths:
        """On other models; the mode's UNMEASURED_FACTOR where none was measured."""
        factors = (entry.factor for entry in self.interference if entry.model != self.model)
        return max(factors, default=UNMEASURED_FACTOR[self.mode])

    @property
    def measures_copies(self) -> bool:
        """Whether it says what the model does to another instance of itself."""
        return any(entry.model == self.model for entry in self.interference)

    def terms(self, tolerance: Millionths, *, copies: bool = False) -> SharingTerms:
        """Terms of an instance that may take `tolerance` times as long as alone.

        Of each neighbour the greatest factor of all its batches counts, of one that was not measured the greatest of
        all other models. copies: instances of its own model may be beside it, which is named then. It is named too
        where it is slowed more than all others: another namespace may have that model. Raises NotShareableError as
        `check_terms`.
        """
        check_slowdown(tolerance, "tolerance")
        others, factors = self.greatest_factor, dict[str, Millionths]()
        for entry in self.interference:
            factors[entry.model] = max(entry.factor, factors.get(entry.model, ONE))
        if not copies and factors.get(self.model, ONE) <= others:
            factors.pop(self.model, None)
        worth = {model: f for model, f in factors.items() if f < others or model == self.model}
        named = tuple((model, Millionths(f - ONE)) for model, f in sorted(worth.items()))
        terms = SharingTerms(self.share, tolerance, Millionths(others - ONE), named)
        try:
            check_terms(terms)
        except NotShareableError as error:
            if self.interference:
                raise
            unmeasured = f"no interference is measured, which counts so under {self.mode}: measure it"
            raise NotShareableError(f"{error}; {unmeasured}") from None
        return terms

    def booking(self, sigma: Millionths = BOOKED_SLOWDOWN) -> Percent:
        """Percent of compute as plans recorded it before slow-downs were counted by pairs; see `compute_booking`."""
        return compute_booking(self.share, self.greatest_factor, sigma)


def compute_share(spec: ModelProfileSpec) -> ComputeShare | None:
    """What a valid profile says of sharing; None: not measured."""
    if spec.compute_share is None or spec.sharing_mode is None:
        return None
    entries = tuple(Interference(e.model, e.batch, parse_ratio(e.factor)) for e in spec.interference or ())
    return ComputeShare(parse_ratio(spec.compute_share), spec.sharing_mode, entries, spec.model)


def check_terms(terms: SharingTerms) -> None:
    """Raises NotShareableError where no neighbour that tolerates as much can be beside an instance with these terms."""
    least = ONE + min((terms.others, *(h for _, h in terms.named)))
    if terms.share >= terms.tolerance:
        share = format_ratio(terms.share)
        raise NotShareableError(f"computeShare {share}: leaves nothing of {_limit_of(terms.tolerance)}")
    if least > terms.tolerance:
        raise NotShareableError(f"interference factor {format_ratio(least)}: is above {_limit_of(terms.tolerance)}")


def parse_max_slowdown(text: str, field: str = "sharing.maxSlowdown") -> Millionths:
    """Greatest slow-down that sharing may cause, of a decimal number such as ``1.25``.

    Raises ValueError for other text and below 1.
    """
    try:
        value = parse_ratio(text)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None
    check_slowdown(value, field)
    return value


def compute_booking(share: Millionths, factor: Millionths, max_slowdown: Millionths) -> Percent:
    """Percent of a GPU's compute: ceil(100 max(u / sigma, (f - 1) / (sigma - 1))), rounded up to 5.

    Where the bookings of a GPU sum to at most 100, the sum of u and 1 + the sum of (f - 1) are at most sigma. With a
    sigma of 1 nobody shares: each instance books 100.

    share: u. factor: f, the greatest that it inflicts. max_slowdown: sigma. Raises NotShareableError for a factor above
    sigma, and ValueError for a share outside of (0, 1], or a factor or sigma below 1.
    """
    if not 0 < share <= ONE:
        raise ValueError(f"computeShare {_text(share)}: must be above 0 and at most 1, for example 0.57")
    if factor < ONE:
        raise ValueError(f"interference factor {_text(factor)}: must be at least 1, for example 1.08")
    check_slowdown(max_slowdown, "sharing.maxSlowdown")
    if factor > max_slowdown:
        raise NotShareableError(f"interference factor {format_ratio(factor)}: is above {_limit_of(max_slowdown)}")
    if max_slowdown == ONE:
        return WHOLE
    steps = WHOLE // STEP
    needed = max(_ceil(steps * share, max_slowdown), _ceil(steps * (factor - ONE), max_slowdown - ONE))
    return Percent(STEP * needed)


def _ceil(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _limit_of(tolerance: Millionths) -> str:
    raised = "set spec.sharing of the service to Exclusive, or raise sharing.maxSlowdown"
    return f"the greatest slow-down {format_ratio(tolerance)}; {raised}"


def check_slowdown(value: int, field: str) -> None:
    """Raises ValueError for a slow-down below 1. field: that has it."""
    if value < ONE:
        raise ValueError(f"{field}: {_text(value)} must be at least 1, for example 1.25")


def _text(millionths: int) -> str:
    return f"-{format_ratio(-millionths)}" if millionths < 0 else format_ratio(millionths)
