"""A random pool as the manifests that `hetserve plan` reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml
from benchmarks.reporting import Json

from hetserve.api.names import API_VERSION
from hetserve.base.units import format_money
from hetserve.planning import Problem, TypeOption
from hetserve.profiles import LatencyProfile, LinearProfile, Spread, TableProfile
from hetserve.profiles.spec import milliseconds, profile_manifest
from testing.builders import POD_TEMPLATE

WEIGHTS = 1_000_000


def write(given: Problem, folder: Path) -> Path:
    path = folder / f"{given.service}-{given.objective.lower()}.yaml"
    path.write_text(yaml.safe_dump_all(manifests(given), sort_keys=False), encoding="utf-8")
    return path


def manifests(given: Problem) -> Iterator[Json]:
    """Types, profiles and the service."""
    for option in given.types:
        yield {
            "apiVersion": API_VERSION,
            "kind": "InstanceType",
            "metadata": {"name": option.name},
            "spec": {"price": {"hourly": format_money(option.price), "per": "Instance"}},
        }
        yield _profile(given, option)
    yield _service(given)


def _profile(given: Problem, option: TypeOption) -> Json:
    made = profile_manifest(
        f"{given.service}-{option.name}",
        "default",
        model=given.service,
        instance_type=option.name,
        latency=_latency(option.profile),
        source="a random pool",
    )
    if option.profile.max_batch is not None:
        made["spec"]["maxBatch"] = option.profile.max_batch
    return made


def _latency(profile: LatencyProfile) -> Json:
    if isinstance(profile, LinearProfile):
        line = {"intercept": milliseconds(profile.intercept), "slope": milliseconds(profile.slope)}
        return {"linear": line | _variation(profile.variation)}
    assert isinstance(profile, TableProfile)
    entries = zip(profile.batches, profile.means, profile.spreads, strict=True)
    return {"table": [{"batch": b, "mean": milliseconds(mean), **_variation(spread)} for b, mean, spread in entries]}


def _variation(spread: Spread | None) -> Json:
    """The coefficient of a log-normal spread, of four decimals."""
    if spread is None:
        return {}
    found = next(step for step in range(1, 10_000) if Spread.of_variation(step / 10_000) == spread)
    return {"coefficientOfVariation": f"{found / 10_000:.4f}"}


def _service(given: Problem) -> Json:
    weights = zip(given.mix.batches, given.mix.shares, strict=True)
    load: Json = {"batchSizes": [{"batch": batch, "weight": share * WEIGHTS} for batch, share in weights]}
    spec: Json = {
        "model": {"name": given.service},
        "objective": given.objective,
        "slo": {"latency": milliseconds(given.slo.latency), "percentile": f"{given.slo.percentile:g}"},
        "instanceTypes": {"names": [option.name for option in given.types]},
        "load": load,
        "template": POD_TEMPLATE,
    }
    if given.load is not None:
        load["expectedQPS"] = given.load
    if given.budget is not None:
        spec["budget"] = {"hourly": format_money(given.budget)}
    return {
        "apiVersion": API_VERSION,
        "kind": "InferenceService",
        "metadata": {"name": given.service, "namespace": "default"},
        "spec": spec,
    }
