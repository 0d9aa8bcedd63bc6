"""Builders of planning problems and their objects; every field can be overridden."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.api.names import API_VERSION
from hetserve.base.units import QPS, MicroDollarsPerHour, Seconds, parse_money
from hetserve.demand import BatchMix
from hetserve.planning import LatencySlo, Problem, TypeOption
from hetserve.profiles import LinearProfile, Spread, TableProfile


def line(intercept_ms: float, slope_ms: float = 0.0, max_batch: int | None = None) -> LinearProfile:
    """Milliseconds."""
    return LinearProfile(Seconds(intercept_ms / 1e3), Seconds(slope_ms / 1e3), max_batch)


def table(entries: Mapping[int, float | tuple[float, float]]) -> TableProfile:
    """{batch: mean} or {batch: (mean, p99)}, milliseconds."""
    pairs = {batch: value if isinstance(value, tuple) else (value, None) for batch, value in entries.items()}
    return TableProfile(
        tuple(pairs),
        tuple(Seconds(mean / 1e3) for mean, _ in pairs.values()),
        tuple(None if p99 is None else Spread.of_quantiles({0.99: p99 / mean}) for mean, p99 in pairs.values()),
    )


def option(name: str, price: str, profile: LinearProfile | TableProfile, **fields: Any) -> TypeOption:
    """price: $/h as text."""
    return TypeOption(name, parse_money(price), profile, **fields)


def kairos_types() -> tuple[TypeOption, ...]:
    """Kairos's four types with lines fitted to RM2."""
    return (
        option("g4dn.xlarge", "0.526", line(3.6991, 0.257456)),
        option("c5n.2xlarge", "0.432", line(2.5968, 0.386595)),
        option("r5n.large", "0.149", line(3.9046, 0.400926)),
        option("t3.xlarge", "0.1664", line(2.8267, 0.882743)),
    )


def hetsev_types(**fields: Any) -> tuple[TypeOption, ...]:
    """A fast, dear and a slow, cheap GPU type: 50 and 25 q/s."""
    return (option("v100", "0.573", line(20), **fields), option("t4", "0.072", line(40), **fields))


def problem(types: Iterable[TypeOption], **fields: Any) -> Problem:
    """MaxThroughput under 2.5 $/h within 350 ms, queries of one batch.

    budget: $/h as text or micro-dollars; slo_ms and percentile instead of slo.
    """
    latency, percentile = fields.pop("slo_ms", 350.0), fields.pop("percentile", 99.0)
    budget = fields.pop("budget", "2.5")
    if isinstance(budget, str):
        budget = parse_money(budget)
    return Problem(
        service=fields.pop("service", "svc"),
        objective=fields.pop("objective", "MaxThroughput"),
        slo=fields.pop("slo", LatencySlo(Seconds(latency / 1e3), percentile)),
        mix=fields.pop("mix", BatchMix.single()),
        types=tuple(types),
        budget=None if budget is None else MicroDollarsPerHour(budget),
        **fields,
    )


def min_cost(types: Iterable[TypeOption], load: float, **fields: Any) -> Problem:
    """MinCost for a load [queries/s], threshold 1, launches free."""
    settings: dict[str, Any] = {"saturation_threshold": 1.0, "launch_weight": 0.0, "budget": None, **fields}
    return problem(types, objective="MinCost", load=QPS(load), **settings)


def instance_type(name: str, hourly: str = "1", **spec: Any) -> InstanceType:
    """`per` and `labels` are taken out of spec."""
    price = {"hourly": hourly, "per": spec.pop("per", "Instance")}
    metadata = {"name": name, "labels": spec.pop("labels", {})}
    body = {"apiVersion": API_VERSION, "kind": "InstanceType", "metadata": metadata, "spec": {"price": price, **spec}}
    return InstanceType.model_validate(body)


def model_profile(model: str, type_name: str, namespace: str = "default", name: str = "", **spec: Any) -> ModelProfile:
    """With a line of 10 ms by default."""
    latency = spec.pop("latency", {"linear": {"intercept": "10ms", "slope": "0ms"}})
    return ModelProfile.model_validate(
        {
            "apiVersion": API_VERSION,
            "kind": "ModelProfile",
            "metadata": {"name": name or f"{model}-{type_name}", "namespace": namespace},
            "spec": {"model": model, "instanceType": type_name, "latency": latency, **spec},
        }
    )


def inference_service(model: str = "m", namespace: str = "default", **spec: Any) -> InferenceService:
    """MaxThroughput, 100 ms, 2.5 $/h, batch 1 by default. variants: of the model."""
    body = {
        "model": {"name": model, "variants": spec.pop("variants", None)},
        "slo": {"latency": "100ms"},
        "budget": {"hourly": "2.5"},
        "load": {"batchSizes": [{"batch": 1, "weight": 1}]},
        "template": {},
        **spec,
    }
    return InferenceService.model_validate(
        {
            "apiVersion": API_VERSION,
            "kind": "InferenceService",
            "metadata": {"name": f"{model}-service", "namespace": namespace},
            "spec": {key: value for key, value in body.items() if value is not None},
        }
    )
