"""The rules of a service's scaling, as numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetserve.api.service.scaling import DEFAULT_PAYBACK_HORIZON, ScaleDown, ScaleUp, ScalingSpec
from hetserve.base.units import Seconds, parse_duration


@dataclass(frozen=True, slots=True)
class StepLimit:
    """The most that the changes of a period may add or remove together.

    kind: a number of instances, or percent of those at the period's beginning, rounded up. period: seconds.
    """

    kind: Literal["Instances", "Percent"]
    value: int
    period: Seconds


@dataclass(frozen=True, slots=True)
class Direction:
    """Rules of adding or of removing. window: stabilization [s]; limits: empty: none; select: which of them counts."""

    window: Seconds
    limits: tuple[StepLimit, ...] = ()
    select: Literal["Max", "Min"] = "Max"


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """spec.scaling with what absent fields mean.

    least, most: instances of all types together; most None: no limit. saturation: share of its capacity to which a plan
    is used. tolerance: share of `saturation` that the load may exceed it by. look_ahead: whether the trend counts.
    replaces: whether instances are swapped for cheaper ones. payback: time in which a swap must pay [s].
    """

    least: int = 1
    most: int | None = None
    saturation: float = 0.8
    tolerance: float = 0.1
    up: Direction = Direction(Seconds(30.0))
    look_ahead: bool = True
    down: Direction = Direction(Seconds(300.0))
    replaces: bool = False
    payback: Seconds = Seconds(3600.0)

    @property
    def trigger(self) -> float:
        """Share of their capacity above which instances are too few."""
        return self.saturation * (1 + self.tolerance)


def scaling_rules(spec: ScalingSpec) -> ScalingRules:
    """Rules of a valid spec."""
    up, down = spec.scale_up_or_default, spec.scale_down_or_default
    return ScalingRules(
        least=spec.min_instances or 1,
        most=spec.max_instances,
        saturation=spec.saturation_share,
        tolerance=float(spec.tolerance),
        up=_direction(up),
        look_ahead=up.look_ahead == "LaunchTime",
        down=_direction(down),
        replaces=spec.replacement == "WhenItPays",
        payback=parse_duration(spec.payback_horizon or DEFAULT_PAYBACK_HORIZON),
    )


def _direction(spec: ScaleUp | ScaleDown) -> Direction:
    limits = tuple(StepLimit(one.type, one.value, parse_duration(one.period)) for one in spec.policies or ())
    return Direction(spec.window_seconds, limits, spec.select_policy or "Max")
