"""Settings of a component: one YAML file, every key checked, flags of the command line on top."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from hetserve.api.yaml_loader import contents
from hetserve.files import UnreadableError, read_text
from hetserve.units import parse_duration

_MOST: Final = 1 << 20
"""Bytes of a settings file: as much as a ConfigMap holds."""


class SettingsError(ValueError):
    """Settings that cannot be used; the text names the key, the value and what would be right."""


class SettingsModel(BaseModel):
    """Base of settings: camelCase keys, none of them unknown, defaults checked like what is given."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True, validate_default=True
    )


def _duration(value: object) -> float:
    if not isinstance(value, str):
        raise ValueError("a duration is a text such as 50ms or 30s")  # noqa: TRY004  (pydantic wants ValueError)
    return parse_duration(value)


Duration = Annotated[float, BeforeValidator(_duration)]
"""Seconds, written as a text with a unit."""
Port = Annotated[int, Field(ge=0, le=65535)]
LogLevel = Literal["debug", "info", "warning", "error"]

Settings = TypeVar("Settings", bound=SettingsModel)


def load_settings(model: type[Settings], path: Path | None, overrides: Mapping[str, Any]) -> Settings:
    """Settings of a YAML file (none: the defaults) with `overrides` (None: not given) on top.

    Raises SettingsError, naming file and key, for a file that cannot be read or holds no mapping, a key that is unknown
    or there twice, or a value out of range.
    """
    content = {} if path is None else _content(path)
    given = {to_camel(key): value for key, value in overrides.items() if value is not None}
    try:
        return model.model_validate({**content, **given})
    except ValidationError as error:
        raise SettingsError("\n".join(_line(path, item) for item in error.errors())) from None


def _content(path: Path) -> dict[Any, Any]:
    """A file of settings as it stands; one that says nothing is torn or the wrong one, and no wish for defaults."""
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
