"""spec.scaling: how a service follows its load; `scaling_rules` says what absent fields mean."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from hetserve.api.base import ApiModel, Rule, keyed_by
from hetserve.api.scalars import Horizon, InstanceCount, Share, StabilizationWindow, Tolerance, Window, distinct
from hetserve.base.units import Seconds, parse_duration

DEFAULT_SCALE_UP_WINDOW: Final = "30s"
DEFAULT_SCALE_DOWN_WINDOW: Final = "5m"
DEFAULT_PAYBACK_HORIZON: Final = "1h"
MOST_POLICIES: Final = 8

SelectPolicy = Literal["Max", "Min"]


class StepPolicy(ApiModel):
    """The most that may change within a period."""

    type: Literal["Instances", "Percent"] = Field(
        description="Instances: a number. Percent: of the instances at the period's beginning, rounded up"
    )
    value: InstanceCount = Field(description="instances or percent")
    period: Window = Field(description="the changes of this time count together, for example 1m")


class _Direction(ApiModel):
    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.selectPolicy) || has(self.policies)",
            "selectPolicy needs policies to select from",
            lambda d: d.select_policy is None or d.policies is not None,
        ),
    )

    policies: Annotated[list[StepPolicy] | None, distinct(lambda p: (p.type, p.period), "policy")] = Field(
        default=None,
        min_length=1,
        max_length=MOST_POLICIES,
        description="limits of steps; absent: no limit",
        json_schema_extra=keyed_by("type", "period"),
    )
    select_policy: SelectPolicy | None = Field(
        default=None, description="which of the policies counts: Max, the one that allows most (absent), or Min"
    )


class ScaleUp(_Direction):
    """How instances are added."""

    stabilization_window: StabilizationWindow = Field(
        default=DEFAULT_SCALE_UP_WINDOW, description="time that the load must be too high throughout; may be 0s"
    )
    look_ahead: Literal["None", "LaunchTime"] = Field(
        default="LaunchTime",
        description="LaunchTime: plan for the load that the trend leads to when new instances serve, at most twice "
        "the present one",
    )

    @property
    def window_seconds(self) -> Seconds:
        return parse_duration(self.stabilization_window)


class ScaleDown(_Direction):
    """How instances are removed."""

    stabilization_window: StabilizationWindow = Field(
        default=DEFAULT_SCALE_DOWN_WINDOW,
        description="what stays must carry the largest load of this time; may be 0s",
    )

    @property
    def window_seconds(self) -> Seconds:
        return parse_duration(self.stabilization_window)


class ScalingSpec(ApiModel):
    """How the service follows its measured load."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.minInstances) || !has(self.maxInstances) || self.minInstances <= self.maxInstances",
            "minInstances must be at most maxInstances",
            lambda s: s.max_instances is None or (s.min_instances or 1) <= s.max_instances,
        ),
        Rule(
            "!has(self.paybackHorizon) || (has(self.replacement) && self.replacement == 'WhenItPays')",
            "paybackHorizon needs replacement WhenItPays",
            lambda s: s.payback_horizon is None or s.replacement == "WhenItPays",
        ),
    )

    min_instances: InstanceCount | None = Field(
        default=None, description="least instances of all types together; absent: 1"
    )
    max_instances: InstanceCount | None = Field(
        default=None, description="most instances of all types together; absent: no limit"
    )
    saturation: Share = Field(
        default="0.8", description="share of their capacity that instances are planned to be used to, for example 0.8"
    )
    tolerance: Tolerance = Field(
        default="0.1",
        description="share of saturation by which the load must exceed it before instances are added, and by which "
        "fewer instances must have it in hand before any are removed",
    )
    scale_up: ScaleUp | None = None
    scale_down: ScaleDown | None = None
    replacement: Literal["Never", "WhenItPays"] | None = Field(
        default=None,
        description="WhenItPays: instances are swapped for those of cheaper types where the saving over "
        "paybackHorizon exceeds what launch and overlap cost. Absent: Never",
    )
    payback_horizon: Horizon | None = Field(
        default=None, description=f"time within which a replacement must pay; absent: {DEFAULT_PAYBACK_HORIZON}"
    )

    @property
    def saturation_share(self) -> float:
        return float(self.saturation)

    @property
    def scale_up_or_default(self) -> ScaleUp:
        return self.scale_up or ScaleUp()

    @property
    def scale_down_or_default(self) -> ScaleDown:
        return self.scale_down or ScaleDown()
