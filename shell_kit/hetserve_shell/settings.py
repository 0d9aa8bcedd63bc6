"""Settings of a component: one YAML file, with command-line flags on top."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from hetserve.base.files import UnreadableError, read_text
from hetserve.base.units import parse_duration
from hetserve.base.yaml_loader import contents

_MOST: Final = 1 << 20  # bytes: as much as a ConfigMap holds


class SettingsError(ValueError):
    """Invalid settings; names key, value and what is expected."""


class SettingsModel(BaseModel):
    """Base of settings: camelCase keys, all of them known."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, validate_default=True
    )


def _duration(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("a duration is a text such as 50ms or 30s")  # noqa: TRY004  (pydantic wants ValueError)
    return parse_duration(value)


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds, written with a unit such as 50ms."""
Port = Annotated[int, Field(ge=0, le=65535)]
LogLevel = Literal["debug", "info", "warning", "error"]
ProbeAuthorization = Literal["kubernetes", "none"]
"""Who reads more than health from the probe port: who the API server says may, or everybody who reaches it."""

Settings = TypeVar("Settings", bound=SettingsModel)


def load_settings(model: type[Settings], path: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Settings of a YAML file (None: defaults) with `overrides` (None: not given) on top.

    Raises SettingsError, naming file and key.
    """
    content = {} if path is None else _content(path)
    given = {to_camel(key): value for key, value in overrides.items() if value is not None}
    try:
        return model.model_validate({**content, **given})
    except ValidationError as error:
        raise SettingsError("\n".join(_line(path, item) for item in error.errors())) from None


def _content(path: Path) -> dict[Any, Any]:
    """The mapping in a settings file; an empty file is refused."""
    try:
        documents = contents(read_text(str(path), _MOST))
    except UnreadableError as error:
        raise SettingsError(str(error)) from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{path}: {error}") from None
    if len(documents) > 1:
        raise SettingsError(f"{path}: settings are one mapping, the file holds {len(documents)} documents")
    content = documents[0] if documents else None
    if isinstance(content, dict):
        return content
    held = {type(None): "nothing", list: "a list", str: "a text"}.get(type(content), repr(content))
    raise SettingsError(
        f"{path}: settings are a mapping such as logLevel: info ({{}} for the defaults), the file holds {held}"
    )


def _line(path: Path | None, item: Any) -> str:
    key = ".".join(str(part) for part in item["loc"])
    where = f"{path}: " if path else ""
    if item["type"] == "extra_forbidden":
        return f"{where}{key}: unknown setting"
    return f"{where}{key}: {item['input']!r}: {item['msg'].removeprefix('Value error, ')}"
