"""Reads `assumptions.yaml`: what HetSev's paper leaves out, and its testbed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Final

import yaml
from pydantic import Field, ValidationError

from hetserve.api.base import ApiModel, Rule
from hetserve.api.manifest_errors import field_errors
from hetserve.api.scalars import (
    DnsLabel,
    Percentile,
    PositiveDecimal,
    PositiveDuration,
    Quantity,
    Share,
    Tolerance,
    TypeName,
    Variation,
)
from hetserve.base.units import MiB, MicroDollarsPerHour, Seconds, parse_duration, quantity_to_mib
from hetserve.base.yaml_loader import contents
from hetserve.serving.services import MEASURED_AT

GIVEN: Final = Path(__file__).with_name("assumptions.yaml")
_COUNT: Final = Field(ge=1, le=1000)
_MIB_PER_GIB: Final = 1024


class ModelSpec(ApiModel):
    """One model, served in whole batches."""

    batch: Annotated[int, Field(ge=1, le=1024)]
    latency: dict[TypeName, PositiveDuration]
    slo: PositiveDuration
    memory: Quantity
    compute_share: Share


class PairSpec(ApiModel):
    """c of two models, or of two copies of one."""

    models: Annotated[list[DnsLabel], Field(min_length=2, max_length=2)]
    c: Tolerance


class GpuSpec(ApiModel):
    """GPUs of one type, and the paper's price."""

    memory: Quantity
    nodes: Annotated[int, _COUNT]
    per_node: Annotated[int, _COUNT]
    price_per_gi_b: PositiveDecimal = Field(alias="pricePerGiB")


class AssumptionsSpec(ApiModel):
    """The file."""

    models: dict[DnsLabel, ModelSpec]
    interference: list[PairSpec]
    coefficient_of_variation: Variation
    percentile: Percentile
    launch_time: PositiveDuration
    gpu_use: Share
    gpus: dict[TypeName, GpuSpec]
    client_cycle: PositiveDuration

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "",
            "interference: must have one entry for each two models, and for each with itself",
            lambda spec: (
                sorted(tuple(sorted(pair.models)) for pair in spec.interference)
                == sorted((a, b) for a in spec.models for b in spec.models if a <= b)
            ),
        ),
        Rule(
            "",
            "models: each must have a latency on every type of gpus, and on no other",
            lambda spec: all(set(model.latency) == set(spec.gpus) for model in spec.models.values()),
        ),
    )


@dataclass(frozen=True, slots=True)
class Model:
    """latency: mean time of a batch alone by type [s]. slo: seconds. share: u, of a GPU's compute while busy."""

    name: str
    batch: int
    latency: Mapping[str, Seconds]
    slo: Seconds
    memory_mib: MiB
    share: float


@dataclass(frozen=True, slots=True)
class GpuType:
    """price_per_gib: normalized, read as $/h."""

    memory_mib: MiB
    nodes: int
    per_node: int
    price_per_gib: float


@dataclass(frozen=True, slots=True)
class Assumptions:
    """interference: c by (model, model), in both orders. variation: of service times. launch, cycle: seconds.

    gpu_use: what a busy tenant adds to its GPU's use.
    """

    models: Mapping[str, Model]
    interference: Mapping[tuple[str, str], float]
    variation: float
    percentile: float
    launch: Seconds
    gpu_use: float
    gpus: Mapping[str, GpuType]
    cycle: Seconds

    def coefficient(self, one: str, other: str) -> float:
        """c of two models, at batches 8 and 8."""
        return self.interference[one, other]

    def stretch(self, own: tuple[str, int], others: tuple[tuple[str, int], ...]) -> float:
        """What neighbours stretch a busy instance by while all are busy. Each: model and batch."""
        slowed = 1 + sum(
            self.coefficient(own[0], name) * math.sqrt(own[1] * batch) / MEASURED_AT for name, batch in others
        )
        return max(slowed, sum(self.models[name].share for name, _ in (own, *others)))

    def rate(self, model: str, type_name: str) -> float:
        """Queries/s of an instance alone that is always busy."""
        return 1 / self.models[model].latency[type_name]

    def price(self, type_name: str) -> MicroDollarsPerHour:
        """Of a whole GPU."""
        gpu = self.gpus[type_name]
        return MicroDollarsPerHour(round(gpu.price_per_gib * gpu.memory_mib / _MIB_PER_GIB * 1_000_000))

    def scaled(self, interference: float = 1.0, slower: Mapping[str, float] | None = None) -> Assumptions:
        """With every c times a factor, and latencies on some types times one: for sensitivity."""
        factors = slower or {}
        models = {
            name: replace(model, latency={t: Seconds(at * factors.get(t, 1.0)) for t, at in model.latency.items()})
            for name, model in self.models.items()
        }
        return replace(self, models=models, interference={k: c * interference for k, c in self.interference.items()})


def read(path: Path = GIVEN) -> Assumptions:
    """The assumptions of a file. Raises ValueError that names file, field and value, and what would be right."""
    return parse(path.read_text(encoding="utf-8"), path.name)


def parse(text: str, name: str = GIVEN.name) -> Assumptions:
    """The assumptions of a text; name: for errors. Raises as `read`."""
    try:
        documents = contents(text)
    except yaml.MarkedYAMLError as error:
        raise ValueError(f"{name}: {error}") from None
    if len(documents) != 1:
        raise ValueError(f"{name}: {len(documents)} documents: must be one")
    try:
        spec = AssumptionsSpec.model_validate(documents[0])
    except ValidationError as error:
        raise ValueError("\n".join(f"{name}: {line}" for line in field_errors(error))) from None
    return _assumptions(spec)


def _assumptions(spec: AssumptionsSpec) -> Assumptions:
    pairs = {tuple(pair.models): float(pair.c) for pair in spec.interference}
    return Assumptions(
        models={name: _model(name, model) for name, model in spec.models.items()},
        interference={key: c for (one, other), c in pairs.items() for key in ((one, other), (other, one))},
        variation=float(spec.coefficient_of_variation),
        percentile=float(spec.percentile),
        launch=parse_duration(spec.launch_time),
        gpu_use=float(spec.gpu_use),
        gpus={
            name: GpuType(quantity_to_mib(gpu.memory), gpu.nodes, gpu.per_node, float(gpu.price_per_gi_b))
            for name, gpu in spec.gpus.items()
        },
        cycle=parse_duration(spec.client_cycle),
    )


def _model(name: str, spec: ModelSpec) -> Model:
    latency = {type_name: parse_duration(text) for type_name, text in spec.latency.items()}
    memory, share = quantity_to_mib(spec.memory), float(spec.compute_share)
    return Model(name, spec.batch, latency, parse_duration(spec.slo), memory, share)


@lru_cache(maxsize=1)
def given() -> Assumptions:
    """Those of `assumptions.yaml`."""
    return read()
