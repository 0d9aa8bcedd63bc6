"""`hetserve plan` in this process, over the sample manifests."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from click.testing import CliRunner, Result

from hetserve.cli.app import app
from testing.data import REPOSITORY

SAMPLES = REPOSITORY / "manifests" / "samples"
RM2 = str(SAMPLES / "rm2.yaml")
HETSEV = str(SAMPLES / "hetsev.yaml")


def run(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments], input=stdin, catch_exceptions=False)


def answer(*arguments: str) -> Any:
    """The plan as JSON; whoever asks again in the same run of tests gets the same text."""
    return json.loads(_answered(arguments))


@cache
def _answered(arguments: tuple[str, ...]) -> str:
    result = run(*arguments, "-o", "json")
    assert result.exit_code == 0, result.stderr
    return result.stdout


def edited(old: str, new: str) -> str:
    text = (SAMPLES / "rm2.yaml").read_text(encoding="utf-8")
    assert old in text
    return text.replace(old, new)
