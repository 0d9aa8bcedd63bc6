"""From a fit to the ModelProfile manifest that kubectl and `hetserve plan` take."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from hetserve.api.names import API_VERSION
from hetserve.profiles.fit import Entry, Fit, thinned

Json = dict[str, Any]
_DIGITS = 7


def profile_manifest(name: str, namespace: str, *, model: str, instance_type: str, latency: Json, source: str) -> Json:
    """ModelProfile object; latency: its `table` or `linear`."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ModelProfile",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"model": model, "instanceType": instance_type, "latency": latency, "source": source[:512]},
    }


def latency_of(fit: Fit) -> Json:
    """spec.latency of a fit, as the kind that it chose."""
    if fit.kind == "table":
        return {"table": [_row(entry) for entry in thinned(fit.entries)]}
    line = {"intercept": milliseconds(fit.line.intercept), "slope": milliseconds(fit.line.slope)}
    return {"linear": line | _variation(fit.variation)}


def milliseconds(seconds: float) -> str:
    """Duration text in ms with seven digits and never an exponent, which the API does not take."""
    value = Decimal(f"{seconds * 1e3:.{_DIGITS}g}").quantize(Decimal("1e-9"))
    text = f"{value:f}"
    return f"{text.rstrip('0').rstrip('.') or '0'}ms"


def _row(entry: Entry) -> Json:
    row: Json = {"batch": entry.batch, "mean": milliseconds(entry.mean)}
    row |= {name: milliseconds(value) for name, value in (entry.quantiles or {}).items()}
    return row | _variation(entry.variation)


def _variation(value: float | None) -> Json:
    if value is None:
        return {}
    text = f"{min(value, 10.0):.6f}".rstrip("0").rstrip(".")
    return {"coefficientOfVariation": text}
