"""Every value of the chart has a type, words and a default, and the page says them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from harness.values_reference import leaves, render_values

CHART = Path(__file__).parents[3] / "charts" / "hetserve"
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
DEFAULTS: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
VALUES = list(leaves(SCHEMA, DEFAULTS))


def paths(defaults: dict[str, Any], above: str = "") -> set[str]:
    """Of every default that is no mapping, or an empty one."""
    found: set[str] = set()
    for name, value in defaults.items():
        path = f"{above}.{name}".removeprefix(".")
        found |= paths(value, path) if isinstance(value, dict) and value else {path}
    return found


def test_each_value_has_type_and_words() -> None:
    assert [value.path for value in VALUES if not {"type", "enum", "oneOf"} & value.schema.keys()] == []
    assert [value.path for value in VALUES if not value.schema.get("description")] == []


def test_each_default_is_a_value_of_the_schema_and_the_other_way_round() -> None:
    listed = {value.path for value in VALUES if value.path != "global"}
    for path in paths(DEFAULTS):
        assert any(path == known or path.startswith(f"{known}.") for known in listed), path
    assert [value.path for value in VALUES if value.default is None and value.path != "global"] == [
        "extender.queue.failOpenAfter"
    ], "without a default nobody finds it in values.yaml"


def test_a_reference_brings_its_definition_and_its_own_words_win() -> None:
    schema = {
        "$defs": {"port": {"type": "integer", "minimum": 1, "maximum": 9, "description": "a port"}},
        "properties": {
            "a": {"$ref": "#/$defs/port"},
            "b": {"properties": {"c": {"$ref": "#/$defs/port", "description": "its own"}}},
        },
    }
    page = render_values(schema, {"a": 1, "b": {"c": 2}})
    assert "| `a` | integer, 1 to 9 | `1` | a port |\n" in page
    assert "| `b.c` | integer, 1 to 9 | `2` | its own |\n" in page
