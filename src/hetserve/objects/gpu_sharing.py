"""What a pod says of sharing its GPU, and when pods may: their slow-downs are counted by pairs.

While they serve, tenant i of a GPU takes at most max(sum of u_j, 1 + sum over j != i of h_ji) times as long as alone
(`profiles.sharing`): u_j are shares of compute, h_ji is what neighbour j adds to the times of i. A GPU holds its
tenants where that is within the tolerance s_i of each. Tenants only add to the sums and lower the least tolerance: one
more never makes room, one less never breaks a promise. All figures are integer millionths, so that any two readers
agree.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from hetserve.api import names
from hetserve.base.units import Millionths, Percent, format_ratio, parse_ratio
from hetserve.objects.resources import WHOLE_COMPUTE

ONE: Final = Millionths(1_000_000)
LONGEST_TERMS: Final = 32_768
"""Characters of the annotation: 256 models of 63 characters, and a factor each, fit."""
MOST_FACTORS: Final = 256
OTHER_MODELS: Final = "*"
"""Key of the factor on models that are not named."""
_FIELDS: Final = ("share", "tolerance", "factors")
_EXAMPLE: Final = '{"share": "0.57", "tolerance": "1.75", "factors": {"*": "1.2", "bert": "1.08"}}'
_LARGEST: Final = Millionths(1_000_000 * ONE)
_MODEL: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""Values of labels: what a pod's model can be."""


@dataclass(frozen=True)
class SharingTerms:
    """Terms on which a pod shares a GPU.

    share: u, of the GPU's compute while it serves, above 0 and at most 1. tolerance: s, the most times longer than
    alone that it may take, at least 1. others: h on models that are not named: a factor less 1. named: (model of its
    namespace, h), by model; its own where copies of it may share.
    """

    share: Millionths
    tolerance: Millionths
    others: Millionths = Millionths(0)
    named: tuple[tuple[str, Millionths], ...] = ()

    @property
    def greatest(self) -> Millionths:
        """The most that it adds to any neighbour's times."""
        return self._greatest

    def on(self, model: str) -> Millionths:
        """What it adds to the times of a model of its namespace."""
        return self._by_model.get(model, self.others)

    @cached_property
    def _greatest(self) -> Millionths:  # underscored as all that is kept: encoders of values leave it out
        return max([self.others, *self._by_model.values()])

    @cached_property
    def _by_model(self) -> Mapping[str, Millionths]:
        return dict(self.named)

    @cached_property
    def _hash(self) -> int:
        return hash((self.share, self.tolerance, self.others, self.named))

    def __hash__(self) -> int:
        return self._hash


class Tenant(NamedTuple):
    """A pod on a GPU. model: None where its label names none."""

    namespace: str
    model: str | None
    terms: SharingTerms

    def adds_to(self, other: Tenant) -> Millionths:
        """What it adds to the times of a neighbour: by pair where both are of one namespace, else the most."""
        if other.model is None or other.namespace != self.namespace:
            return self.terms.greatest
        return self.terms.on(other.model)


def slowdowns(tenants: Sequence[Tenant]) -> tuple[Millionths, ...]:
    """The most times longer than alone that each tenant of one GPU takes, whatever the others do."""
    if len(tenants) < 2:
        return (ONE,) * len(tenants)
    shares = sum(tenant.terms.share for tenant in tenants)
    return tuple(Millionths(max(shares, ONE + more)) for more in added(tenants))


def added(tenants: Sequence[Tenant]) -> tuple[Millionths, ...]:
    """What the others add to the times of each tenant of one GPU."""
    return tuple(
        Millionths(sum(other.adds_to(one) for place, other in enumerate(tenants) if place != at))
        for at, one in enumerate(tenants)
    )


def tolerate(tenants: Sequence[Tenant]) -> bool:
    """Whether one GPU may hold these tenants: no slow-down is above its tenant's tolerance."""
    return all(slow <= one.terms.tolerance for slow, one in zip(slowdowns(tenants), tenants, strict=True))


def hardest_pressed(tenants: Sequence[Tenant]) -> tuple[int, Millionths]:
    """(place, slow-down) of the tenant whose slow-down is the most of its tolerance; ties: the first.

    Raises ValueError without tenants.
    """
    found = slowdowns(tenants)
    place = max(range(len(tenants)), key=lambda at: Fraction(found[at], tenants[at].terms.tolerance))
    return place, found[place]


def booked_percents(tenants: Sequence[Tenant]) -> tuple[Percent, ...]:
    """How much of what each tenant tolerates the GPU takes, in percent, rounded up: above 100 where it is too much.

    Of one alone: its share, of its tolerance.
    """
    slow = slowdowns(tenants) if len(tenants) > 1 else [tenant.terms.share for tenant in tenants]
    return tuple(
        Percent(-(-WHOLE_COMPUTE * one // tenant.terms.tolerance)) for one, tenant in zip(slow, tenants, strict=True)
    )


def booked_percent(tenants: Sequence[Tenant]) -> Percent:
    """The most that the GPU takes of what any of its tenants tolerates: above 100 if they may not share it."""
    return max(booked_percents(tenants), default=Percent(0))


def terms_text(terms: SharingTerms) -> str:
    """The annotation `names.ANNOTATION_GPU_SHARING`: one text for equal terms."""
    factors = {model: format_ratio(ONE + h) for model, h in ((OTHER_MODELS, terms.others), *sorted(terms.named))}
    written = {"share": format_ratio(terms.share), "tolerance": format_ratio(terms.tolerance), "factors": factors}
    return json.dumps(written, separators=(",", ":"))


@lru_cache(maxsize=1024)
def parse_terms(text: str) -> SharingTerms:
    """Terms of the annotation. Raises ValueError, with field, value and what would be right."""
    if len(text) > LONGEST_TERMS:
        raise ValueError(f"{_named('')}{len(text)} characters are more than {LONGEST_TERMS}")
    try:
        found = json.loads(text, object_pairs_hook=_once, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{_named('')}{_shown(text)} cannot be read ({error}); write for example {_EXAMPLE}") from None
    if not isinstance(found, dict) or found.keys() != set(_FIELDS):
        wrong = _wrong_fields(found) if isinstance(found, dict) else _shown(text)
        raise ValueError(f"{_named('')}{wrong}: must have {', '.join(_FIELDS)}; write for example {_EXAMPLE}")
    factors = found["factors"]
    if not isinstance(factors, dict) or OTHER_MODELS not in factors or len(factors) > MOST_FACTORS + 1:
        most = f"{_named('factors')}must be an object with {OTHER_MODELS!r}, for models not named, and at most"
        raise ValueError(f"{most} {MOST_FACTORS} others")
    for model in factors:
        if model != OTHER_MODELS and _MODEL.fullmatch(model) is None:
            raise ValueError(f"{_named('factors')}{_shown(model)} is no value of label {names.LABEL_MODEL}")
    added = {model: Millionths(_ratio(f"factors.{model}", factor, ONE) - ONE) for model, factor in factors.items()}
    others = added.pop(OTHER_MODELS)
    share, tolerance = _ratio("share", found["share"], 1, ONE), _ratio("tolerance", found["tolerance"], ONE)
    return SharingTerms(share, tolerance, others, tuple(sorted(added.items())))


def _ratio(field: str, value: Any, least: int, most: int = _LARGEST) -> Millionths:
    try:
        ratio = parse_ratio(value[:60] if isinstance(value, str) else _kind(value))
    except ValueError as error:
        raise ValueError(f"{_named(field)}{error}") from None
    if not least <= ratio <= most:
        bounds = "above 0 and at most 1" if most == ONE else "at least 1"
        raise ValueError(f"{_named(field)}{value} must be {bounds}")
    return ratio


def _kind(value: Any) -> str:
    """What is there in place of a number."""
    return json.dumps(value) if value is None or isinstance(value, bool) else type(value).__name__


def _wrong_fields(found: Mapping[str, Any]) -> str:
    """``unknown 'harm', missing 'factors'``."""
    kinds = {
        "unknown": sorted(found.keys() - set(_FIELDS)),
        "missing": [name for name in _FIELDS if name not in found],
    }
    return ", ".join(f"{kind} {_shown(', '.join(fields))}" for kind, fields in kinds.items() if fields)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _named(field: str) -> str:
    return f"annotation {names.ANNOTATION_GPU_SHARING}: {field + ': ' if field else ''}"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")
