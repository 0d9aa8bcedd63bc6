"""From a ModelProfile object to the latency profile that decisions are made with."""

from __future__ import annotations

from hetserve.api.model_profile import QUANTILES, ModelProfileSpec, TableEntry
from hetserve.profiles.latency import LatencyProfile, LinearProfile, TableProfile
from hetserve.profiles.spread import Spread
from hetserve.units import parse_duration


def profile_from_spec(spec: ModelProfileSpec) -> LatencyProfile:
    """Latency profile of a ModelProfile's spec (validated: exactly one of table and linear is set)."""
    if spec.latency.linear is not None:
        line = spec.latency.linear
        spread = _of_variation(line.coefficient_of_variation)
        return LinearProfile(parse_duration(line.intercept), parse_duration(line.slope), spec.max_batch, spread)
    table = spec.latency.table or []
    return TableProfile(
        tuple(e.batch for e in table),
        tuple(parse_duration(e.mean) for e in table),
        tuple(_spread(e) for e in table),
        spec.max_batch,
    )


def _spread(entry: TableEntry) -> Spread | None:
    if entry.p99 is None:
        return _of_variation(entry.coefficient_of_variation)
    mean = parse_duration(entry.mean)
    return Spread.of_quantiles(
        {p: parse_duration(text) / mean for name, p in QUANTILES if (text := getattr(entry, name)) is not None}
    )


def _of_variation(coefficient: str | None) -> Spread | None:
    return None if coefficient is None else Spread.of_variation(float(coefficient))
