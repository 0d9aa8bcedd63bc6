"""spec.model: the model that a service serves, and the variants of it that may answer."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, ClassVar, Final

from pydantic import Field

from hetserve.api.base import ApiModel, Rule, keyed_by
from hetserve.api.scalars import Accuracy, DnsLabel, Share, distinct

MOST_VARIANTS: Final = 16


class ModelVariant(ApiModel):
    """One of several forms of the model: another answer takes another time."""

    name: DnsLabel = Field(description="as the profiles of the model name it")
    accuracy: Accuracy
    utility: Share | None = Field(
        default=None,
        description="what an answer in time is worth, above 0 and at most 1; absent: accuracy / 100",
    )

    @property
    def accuracy_percent(self) -> float:
        return float(self.accuracy)

    @property
    def utility_or_default(self) -> float:
        return float(Decimal(self.accuracy) / 100 if self.utility is None else Decimal(self.utility))


class ModelRef(ApiModel):
    """The model that a service serves."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule("self.name == oldSelf.name", "model.name is immutable: make a new service for another model"),
    )

    name: DnsLabel = Field(description="identity of the model in its namespace, for profiles and anti-affinity")
    variants: Annotated[list[ModelVariant] | None, distinct(lambda v: v.name, "variant")] = Field(
        default=None,
        min_length=1,
        max_length=MOST_VARIANTS,
        description="forms of the model that may answer, each with a latency in every profile. `hetserve simulate` "
        "chooses among them; plans, instances and routers use the most accurate one. Absent: the model has one form",
        json_schema_extra=keyed_by("name"),
    )
