"""Terms on which pods share GPUs, drawn; and the rule by which they may, written out as fractions."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from hypothesis import strategies as st

from hetserve.base.units import Millionths
from hetserve.objects.gpu_sharing import SharingTerms, Tenant

MILLION = 1_000_000
SHARES = st.sampled_from([1, 300_000, 500_000, 571_429, MILLION]).map(Millionths)
TOLERANCES = st.sampled_from([MILLION, 1_250_000, 1_750_000, 2_142_857, 4 * MILLION]).map(Millionths)
ADDED = st.sampled_from([0, 80_000, 250_000, 400_001, 2 * MILLION]).map(Millionths)


def terms_of(models: Sequence[str]) -> st.SearchStrategy[SharingTerms]:
    """Terms that name some of the models."""
    named = st.dictionaries(st.sampled_from(models), ADDED).map(lambda found: tuple(sorted(found.items())))
    return st.builds(SharingTerms, SHARES, TOLERANCES, ADDED, named)


def slowed(tenants: Sequence[Tenant]) -> list[Fraction]:
    """How much of what it tolerates each tenant of a GPU takes; of one alone its share of that."""
    found = []
    for place, one in enumerate(tenants):
        others = [other for number, other in enumerate(tenants) if number != place]
        shares = sum(Fraction(tenant.terms.share, MILLION) for tenant in tenants)
        slow = max(shares, 1 + sum(_added(other, one) for other in others)) if others else shares
        found.append(slow / Fraction(one.terms.tolerance, MILLION))
    return found


def _added(other: Tenant, one: Tenant) -> Fraction:
    factors = dict(other.terms.named)
    if one.model is None or one.namespace != other.namespace:
        return Fraction(max([other.terms.others, *factors.values()]), MILLION)
    return Fraction(factors.get(one.model, other.terms.others), MILLION)
