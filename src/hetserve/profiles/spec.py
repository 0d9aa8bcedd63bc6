"""Converts ModelProfile objects to latency profiles, and fits to ModelProfile manifests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hetserve.api.model_profile import QUANTILES, LatencySpec, ModelProfileSpec, TableEntry
from hetserve.api.names import API_VERSION
from hetserve.base.units import parse_duration
from hetserve.profiles.fit import Fit, MeasuredBatch, thinned
from hetserve.profiles.latency import LatencyProfile, LinearProfile, TableProfile
from hetserve.profiles.spread import Spread

Json = dict[str, Any]
_DIGITS = 7


def profile_from_spec(spec: ModelProfileSpec) -> LatencyProfile:
    """Latency profile of a valid spec, without variants or of one. Raises ValueError for several: none is chosen."""
    if spec.variants is None:
        assert spec.latency is not None  # noqa: S101  a valid spec has one of both
        return profile_of(spec.latency, spec.max_batch)
    if len(spec.variants) > 1:
        raise ValueError(f"there are several variants, and none is chosen: {', '.join(spec.latencies)}")
    return profile_of(spec.variants[0].latency, spec.variants[0].max_batch)


def profile_of(latency: LatencySpec, max_batch: int | None) -> LatencyProfile:
    """Latency profile of a valid latency, in which exactly one of table and linear is set."""
    if latency.linear is not None:
        line = latency.linear
        spread = _spread_of_variation(line.coefficient_of_variation)
        return LinearProfile(parse_duration(line.intercept), parse_duration(line.slope), max_batch, spread)
    table = latency.table or []
    return TableProfile(
        tuple(e.batch for e in table),
        tuple(parse_duration(e.mean) for e in table),
        tuple(_spread_of_entry(e) for e in table),
        max_batch,
    )


def _spread_of_entry(entry: TableEntry) -> Spread | None:
    if entry.p99 is None:
        return _spread_of_variation(entry.coefficient_of_variation)
    mean = parse_duration(entry.mean)
    return Spread.of_quantiles(
        {p: parse_duration(text) / mean for name, p in QUANTILES if (text := getattr(entry, name)) is not None}
    )


def _spread_of_variation(coefficient: str | None) -> Spread | None:
    return None if coefficient is None else Spread.of_variation(float(coefficient))


def profile_manifest(name: str, namespace: str, *, model: str, instance_type: str, source: str, **times: Any) -> Json:
    """times: `latency`, with its `table` or `linear`, or `variants`."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelProfile",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": model, "instanceType": instance_type, **times, "source": source[:512]},
    }


def latency_of(fit: Fit) -> Json:
    if fit.kind == "table":
        return {"table": [_row(entry) for entry in thinned(fit.entries)]}
    line = {"intercept": milliseconds(fit.line.intercept), "slope": milliseconds(fit.line.slope)}
    return {"linear": line | _variation(fit.variation)}


def milliseconds(seconds: float) -> str:
    """Duration in ms with seven digits; the API accepts no exponent."""
    value = Decimal(f"{seconds * 1e3:.{_DIGITS}g}").quantize(Decimal("1e-9"))
    text = f"{value:f}"
    return f"{text.rstrip('0').rstrip('.') or '0'}ms"


def _row(entry: MeasuredBatch) -> Json:
    row: Json = {"batch": entry.batch, "mean": milliseconds(entry.mean)}
    row |= {name: milliseconds(value) for name, value in (entry.quantiles or {}).items()}
    return row | _variation(entry.variation)


def _variation(value: float | None) -> Json:
    if value is None:
        return {}
    text = f"{min(value, 10.0):.6f}".rstrip("0").rstrip(".")
    return {"coefficientOfVariation": text}
