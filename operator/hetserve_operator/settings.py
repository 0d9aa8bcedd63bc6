"""Settings of the operator: one YAML file, every key checked, flags of the command line on top."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from hetserve.planning.inputs import PlanSettings
from hetserve.units import parse_duration


class SettingsError(ValueError):
    """Settings that cannot be used; the text names the key, the value and what would be right."""


def _duration(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("a duration is a text such as 200ms or 60s")  # noqa: TRY004  (pydantic wants ValueError)
    return parse_duration(value)


Duration = Annotated[float, BeforeValidator(_duration)]


class Settings(BaseModel):
    """Everything the operator can be told; port 0 lets the system choose.

    debounce: how long changes are gathered before a service is looked at. resync: how often everything is
    looked at without a change. launch_weight: HetSev's lambda, per second of launch time.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, validate_default=True
    )

    host: str = "0.0.0.0"  # noqa: S104  (probes come from the node)
    probe_port: int = Field(default=8080, ge=0, le=65535)
    saturation_threshold: float = Field(default=0.8, gt=0, le=1)
    launch_weight: float = Field(default=1 / 3600, ge=0, le=1, allow_inf_nan=False)
    debounce: Duration = Field(default="200ms")  # type: ignore[assignment]
    resync: Duration = Field(default="60s")  # type: ignore[assignment]
    workers: int = Field(default=4, ge=1, le=64)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def planning(self) -> PlanSettings:
        return PlanSettings(saturation_threshold=self.saturation_threshold, launch_weight=self.launch_weight)


def load_settings(path: Path | None, overrides: dict[str, Any]) -> Settings:
    """Settings of a YAML file (none: the defaults) with `overrides` (None: not given) on top.

    Raises SettingsError, naming file and key, for an unreadable file, an unknown key or a value out of range.
    """
    content: object = {}
    if path is not None:
        try:
            content = yaml.safe_load(path.read_text()) or {}
        except (OSError, yaml.YAMLError) as error:
            raise SettingsError(f"{path}: {error}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{path}: settings are a mapping, not {type(content).__name__}")
    given = {to_camel(key): value for key, value in overrides.items() if value is not None}
    try:
        return Settings.model_validate({**content, **given})
    except ValidationError as error:
        raise SettingsError("\n".join(_line(path, item) for item in error.errors())) from None


def _line(path: Path | None, item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    where = f"{path}: " if path else ""
    if item["type"] == "extra_forbidden":
        return f"{where}{key}: unknown setting"
    return f"{where}{key}: {item['input']!r}: {item['msg'].removeprefix('Value error, ')}"
