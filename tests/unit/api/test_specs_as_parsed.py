"""The models refuse what the apiserver refuses (tests/integration runs the same table there)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, ValidationError

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from testing import builders

TABLE = yaml.safe_load((Path(__file__).parents[2] / "golden" / "api" / "specs.yaml").read_text())
MODELS: dict[str, type[BaseModel]] = {
    "service": InferenceService,
    "instance_type": InstanceType,
    "model_profile": ModelProfile,
}


def build(row: dict[str, Any]) -> dict[str, Any]:
    overrides = {path: builders.REMOVED if value is None else value for path, value in row.get("set", {}).items()}
    manifest: dict[str, Any] = getattr(builders, row["of"])(overrides=overrides)
    return manifest


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row["case"])
def test_spec_table(row: dict[str, Any]) -> None:
    model = MODELS[row["of"]]
    if "wants" not in row:
        model.model_validate(build(row))
        return
    with pytest.raises(ValidationError) as refused:
        model.model_validate(build(row))
    # The apiserver names the field by its path, the models by a tuple: compare the last part of the path.
    text = " ".join(f"{'.'.join(map(str, e['loc']))} {e['msg']}" for e in refused.value.errors())
    assert row["wants"] in text


def test_an_unknown_field_of_a_newer_version_is_ignored_when_asked() -> None:
    manifest = builders.service(overrides={"spec.invented": {"later": True}})

    parsed = InferenceService.model_validate(manifest, extra="ignore")

    assert parsed.spec.slo.latency == "350ms"
