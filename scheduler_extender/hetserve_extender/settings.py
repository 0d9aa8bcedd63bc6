"""Settings of the extender: one YAML file, every key checked, flags of the command line on top."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from hetserve.placement import QueueSettings
from hetserve.units import Seconds, parse_duration


class SettingsError(ValueError):
    """Settings that cannot be used; the text names the key, the value and what would be right."""


def _duration(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("a duration is a text such as 50ms or 30s")  # noqa: TRY004  (pydantic wants ValueError)
    return parse_duration(value)


Duration = Annotated[float, BeforeValidator(_duration)]
Port = Annotated[int, Field(ge=0, le=65535)]


class _Model(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, validate_default=True
    )


class QueueOptions(_Model):
    """Queues: k, beta, when an unschedulable pod stops counting, and how long events are gathered."""

    queues: int = Field(default=4, ge=1, le=64)
    beta: int = Field(default=8, ge=1, le=10_000)
    unschedulable_after: Duration = Field(default="30s")  # type: ignore[assignment]
    debounce: Duration = Field(default="50ms")  # type: ignore[assignment]

    @property
    def core(self) -> QueueSettings:
        return QueueSettings(queues=self.queues, beta=self.beta)


class Settings(_Model):
    """Everything the extender can be told; port 0 lets the system choose."""

    host: str = "0.0.0.0"  # noqa: S104  (the scheduler calls from another pod)
    port: Port = 8888
    probe_port: Port = 8889
    reservation_timeout: Duration = Field(default="30s")  # type: ignore[assignment]
    queue: QueueOptions = QueueOptions()
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def hold(self) -> Seconds:
        """How long a filter's reservation lasts."""
        return Seconds(self.reservation_timeout)


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
