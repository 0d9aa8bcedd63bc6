"""ModelProfile: latency of a model on an instance type by batch size."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from hetserve.api.base import ApiModel, ApiObject, Rule, keyed_by
from hetserve.api.conditions import PlanInputStatus
from hetserve.api.scalars import (
    DnsLabel,
    Duration,
    Factor,
    PositiveDuration,
    Quantity,
    Share,
    TypeName,
    Variation,
    distinct,
)
from hetserve.api.service.variants import MOST_VARIANTS
from hetserve.base.humps import hump_words
from hetserve.base.units import parse_duration
from hetserve.registry.choices import SharingMode

MAX_BATCH = 1_000_000
_MAX_BATCH: Final = "largest batch that can be served; absent: the table's last, or no limit"
MOST_CONFLICTS: Final = 16
"""Names of rivals that a status holds."""
QUANTILES: Final = (("min", 0.0), ("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("max", 1.0))
"""Quantile fields, ascending, with their probabilities."""

_BESIDE_P99: Final = tuple(name for name, _ in QUANTILES if name != "p99")


def _quantiles(entry: TableEntry) -> list[float]:
    given = [getattr(entry, name) for name, _ in QUANTILES]
    return [parse_duration(text) for text in given if text is not None]


class TableEntry(ApiModel):
    """Measured latency at one batch size, with its spread where that was measured too."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.p99) || duration(self.p99) >= duration(self.mean)",
            "p99 must not be shorter than mean",
            lambda e: e.p99 is None or parse_duration(e.p99) >= parse_duration(e.mean),
        ),
        Rule(
            f"has(self.p99) || !({' || '.join(f'has(self.{name})' for name in _BESIDE_P99)})",
            "min, p50, p90, p95 and max need p99 beside them",
            lambda e: e.p99 is not None or not _quantiles(e),
        ),
        Rule(
            f"({' + '.join(f'(has(self.{name}) ? [duration(self.{name})] : [])' for name, _ in QUANTILES)}).isSorted()",
            "min, p50, p90, p95, p99 and max must not decrease in this order",
            lambda e: _quantiles(e) == sorted(_quantiles(e)),
        ),
        Rule(
            "(!has(self.min) || duration(self.min) <= duration(self.mean))"
            " && (!has(self.max) || duration(self.max) >= duration(self.mean))",
            "mean must lie within min and max",
            lambda e: (
                (e.min is None or parse_duration(e.min) <= parse_duration(e.mean))
                and (e.max is None or parse_duration(e.max) >= parse_duration(e.mean))
            ),
        ),
        Rule(
            "!has(self.p99) || !has(self.coefficientOfVariation)",
            "p99 and coefficientOfVariation say the same thing twice: set one",
            lambda e: e.p99 is None or e.coefficient_of_variation is None,
        ),
    )

    batch: int = Field(ge=1, le=MAX_BATCH, description="items in the query")
    mean: PositiveDuration
    min: PositiveDuration | None = None
    p50: PositiveDuration | None = Field(default=None, description="median")
    p90: PositiveDuration | None = None
    p95: PositiveDuration | None = None
    p99: PositiveDuration | None = Field(
        default=None,
        description="99th percentile; without it and coefficientOfVariation the spread of the neighbouring entries "
        "holds, or, where no entry has one, latency does not vary",
    )
    max: PositiveDuration | None = None
    coefficient_of_variation: Variation | None = None


class Linear(ApiModel):
    """Latency as intercept + slope x batch."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "duration(self.intercept) + duration(self.slope) > duration('0s')",
            "intercept + slope must be longer than zero",
            lambda e: parse_duration(e.intercept) + parse_duration(e.slope) > 0,
        ),
    )

    intercept: Duration
    slope: Duration = Field(description="per item of the batch, for example 0.257456ms")
    coefficient_of_variation: Variation | None = None


class LatencySpec(ApiModel):
    """Latency by batch size: either a table or a line."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.table) != has(self.linear)",
            "exactly one of table and linear must be set",
            lambda s: (s.table is None) != (s.linear is None),
        ),
        Rule(
            "!has(self.table) || self.table.map(e, e.batch).isSorted()",
            "table batches must be strictly increasing",
            lambda s: s.table is None or all(a.batch < b.batch for a, b in zip(s.table, s.table[1:], strict=False)),
        ),
    )

    table: list[TableEntry] | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="measured latencies, by batch size; between two of them it is a line",
        json_schema_extra=keyed_by("batch"),
    )
    linear: Linear | None = None

    @property
    def warning(self) -> str:
        """What is odd about the table, though it is valid; empty: nothing is."""
        table = self.table or []
        return hump_words([entry.batch for entry in table], [parse_duration(entry.mean) for entry in table])


class VariantLatency(ApiModel):
    """Latency of one variant of the model."""

    name: DnsLabel = Field(description="as spec.model.variants of services names it")
    latency: LatencySpec
    max_batch: int | None = Field(default=None, ge=1, le=MAX_BATCH, description=_MAX_BATCH)


class InterferenceEntry(ApiModel):
    """What an instance of this profile does to another instance that serves on the same GPU."""

    model: DnsLabel = Field(
        description="the other's model, which is slowed; this profile's own: copies, for spec.ownCopies of services"
    )
    batch: int = Field(ge=1, le=MAX_BATCH, description="items in the other's queries")
    factor: Factor = Field(
        description="the other's latency while this one serves beside it / its latency alone, for example 1.08"
    )


class ModelProfileSpec(ApiModel):
    """Measured behaviour of one model on one instance type."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.latency) != has(self.variants)",
            "exactly one of latency and variants must be set",
            lambda s: (s.latency is None) != (s.variants is None),
        ),
        Rule(
            "!has(self.variants) || !has(self.maxBatch)",
            "maxBatch belongs into each of variants, not beside them",
            lambda s: s.variants is None or s.max_batch is None,
        ),
        Rule(
            "!has(self.switchTime) || has(self.variants)",
            "switchTime needs variants: it is the time to change from one to another",
            lambda s: s.switch_time is None or s.variants is not None,
        ),
        Rule(
            "has(self.computeShare) == has(self.sharingMode)",
            "computeShare and sharingMode must be set together: a share holds for the mode that it was measured in",
            lambda s: (s.compute_share is None) == (s.sharing_mode is None),
        ),
        Rule(
            "has(self.computeShare) || !has(self.interference)",
            "interference needs computeShare beside it: measure copies, too",
            lambda s: s.compute_share is not None or s.interference is None,
        ),
    )

    model: DnsLabel = Field(description="the model's name, as services give it in spec.model.name")
    instance_type: TypeName
    latency: LatencySpec | None = Field(default=None, description="of a model without variants: a table or a line")
    max_batch: int | None = Field(default=None, ge=1, le=MAX_BATCH, description=_MAX_BATCH)
    variants: Annotated[list[VariantLatency] | None, distinct(lambda v: v.name, "variant")] = Field(
        default=None,
        min_length=1,
        max_length=MOST_VARIANTS,
        description="latency of each variant of the model, instead of latency; all are of one instance, which holds "
        "gpuMemory for them together",
        json_schema_extra=keyed_by("name"),
    )
    switch_time: Duration | None = Field(
        default=None, description="time for which an instance serves nothing as it changes variants; absent: none"
    )
    gpu_memory: Quantity | None = Field(
        default=None, description="GPU memory that an instance holds, for example 3Gi; absent: the whole GPU"
    )
    compute_share: Share | None = Field(
        default=None,
        description="share of the GPU's compute that an instance uses while it serves, at the mix's largest batch: "
        "from the throughput of copies run together, not from a utilisation counter. Absent: not measured, "
        "and each new instance gets a whole GPU",
    )
    sharing_mode: SharingMode | None = Field(
        default=None,
        description="how the GPU was shared in the measurements of computeShare and interference, as in the cluster",
    )
    interference: Annotated[list[InterferenceEntry] | None, distinct(lambda e: (e.model, e.batch), "entry")] = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="how much this model slows others while it serves beside them; absent: by 1 in TimeSlicing, by "
        "1.18 under MPS",
        json_schema_extra=keyed_by("model", "batch"),
    )
    measured_at: str | None = Field(
        default=None, max_length=32, description="when it was measured", json_schema_extra={"format": "date-time"}
    )
    source: str | None = Field(default=None, max_length=512, description="where the numbers come from")

    @property
    def latencies(self) -> dict[str, LatencySpec]:
        """By variant; of a model without variants under the empty name."""
        if self.latency is not None:
            return {"": self.latency}
        return {variant.name: variant.latency for variant in self.variants or ()}

    @property
    def warning(self) -> str:
        """What is odd about tables, though they are valid; empty: nothing is."""
        odd = {name: latency.warning for name, latency in self.latencies.items()}
        return "; ".join(f"variant {name}: {text}" if name else text for name, text in odd.items() if text)


class ModelProfileStatus(PlanInputStatus):
    """Observed state of a model profile."""

    conflicts: list[str] = Field(
        default_factory=list,
        max_length=MOST_CONFLICTS,
        description="other profiles of its namespace for the same model and type; services are not planned while "
        "there is one",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class ModelProfile(ApiObject):
    """Latency of a model on an instance type, in the namespace of the services that use it."""

    kind: Literal["ModelProfile"] = "ModelProfile"
    spec: ModelProfileSpec
    status: ModelProfileStatus | None = None
