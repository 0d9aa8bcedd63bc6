"""The load that a service is planned for: its rate and its mix of batch sizes."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from hetserve.api.base import ApiModel, Rule, keyed_by
from hetserve.api.model_profile import MAX_BATCH
from hetserve.api.scalars import MeanBatch, PositiveDecimal, distinct


class BatchShare(ApiModel):
    """Share of queries that carry this many items."""

    batch: int = Field(ge=1, le=MAX_BATCH, description="items in the query")
    weight: float = Field(gt=0, le=1e9, allow_inf_nan=False, description="relative; weights are normalised")


_BELLS: Final = "(self.type == 'Normal' || self.type == 'LogNormal')"


def _bell(distribution: BatchDistribution) -> bool:
    return distribution.type in ("Normal", "LogNormal")


def _given(distribution: BatchDistribution) -> set[str]:
    fields = ("mean", "standard_deviation", "min", "max")
    return {field for field in fields if getattr(distribution, field) is not None}


class BatchDistribution(ApiModel):
    """A mix of batch sizes by name; the operator expands it to whole batch sizes."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(self.type == 'Fixed') || "
            "(has(self.mean) && !has(self.standardDeviation) && !has(self.min) && !has(self.max))",
            "type Fixed needs mean and nothing else: every query carries so many items",
            lambda d: d.type != "Fixed" or _given(d) == {"mean"},
        ),
        Rule(
            "self.type != 'Fixed' || !has(self.mean) || self.mean.matches('^[0-9]+([.]0+)?$')",
            "mean of type Fixed must be a whole number of items, for example '32'",
            lambda d: d.type != "Fixed" or d.mean is None or Decimal(d.mean) % 1 == 0,
        ),
        Rule(
            "!(self.type == 'Uniform') || "
            "(has(self.min) && has(self.max) && !has(self.mean) && !has(self.standardDeviation))",
            "type Uniform needs min and max and nothing else",
            lambda d: d.type != "Uniform" or _given(d) == {"min", "max"},
        ),
        Rule(
            f"!{_BELLS} || (has(self.mean) && has(self.standardDeviation) && has(self.max))",
            "type Normal and LogNormal need mean, standardDeviation and max, the most items that a query can carry; "
            "min is 1 if absent",
            lambda d: not _bell(d) or _given(d) >= {"mean", "standard_deviation", "max"},
        ),
        Rule(
            "!has(self.min) || !has(self.max) || self.min <= self.max",
            "min must be at most max",
            lambda d: d.min is None or d.max is None or d.min <= d.max,
        ),
        Rule(
            f"!{_BELLS} || !has(self.mean) || !has(self.max) || (double(self.mean) <= double(self.max)"
            " && (!has(self.min) || double(self.mean) >= double(self.min)))",
            "mean must lie between min and max",
            lambda d: (
                not _bell(d) or d.mean is None or d.max is None or (d.min or 1) <= Decimal(d.mean) <= Decimal(d.max)
            ),
        ),
    )

    type: Literal["LogNormal", "Normal", "Uniform", "Fixed"] = Field(
        description="LogNormal and Normal: by mean, standardDeviation and max. Uniform: from min to max. Fixed: mean"
    )
    mean: MeanBatch | None = Field(default=None, description="items of a query in the mean, before min and max cut off")
    standard_deviation: PositiveDecimal | None = Field(
        default=None, description="of the items of a query, before min and max cut off"
    )
    min: int | None = Field(default=None, ge=1, le=MAX_BATCH, description="fewest items of a query")
    max: int | None = Field(default=None, ge=1, le=MAX_BATCH, description="most items of a query")


class Load(ApiModel):
    """The load to plan for."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.batchDistribution) || !has(self.batchSizes) || size(self.batchSizes) == 0",
            "batchSizes and batchDistribution exclude each other: set one of them",
            lambda load: load.batch_distribution is None or not load.batch_sizes,
        ),
    )

    expected_qps: float | None = Field(
        default=None,
        gt=0,
        le=1e9,
        allow_inf_nan=False,
        alias="expectedQPS",
        description="queries/s; MinCost needs it, with scaling only until the load is measured",
    )
    batch_sizes: Annotated[list[BatchShare], distinct(lambda b: b.batch, "batch")] = Field(
        default_factory=list,
        max_length=1000,
        description="mix of batch sizes; MaxThroughput needs it or batchDistribution; neither: single-item queries "
        "under MinCost",
        json_schema_extra=keyed_by("batch"),
    )
    batch_distribution: BatchDistribution | None = Field(
        default=None, description="mix of batch sizes by name, instead of batchSizes"
    )

    @property
    def declares_a_mix(self) -> bool:
        return bool(self.batch_sizes) or self.batch_distribution is not None
