"""`hetserve reference`: writes published measurements as manifests."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

SLO: Final = {"RM2": "350ms", "NCF": "5ms", "WND": "25ms", "MT-WND": "25ms", "DIEN": "35ms"}
"""By model, as the paper names it (Kairos, HPDC'23, Table 3)."""


@click.group()
def reference() -> None:
    """Published measurements as manifests."""


@reference.command()
@click.option(
    "--data", required=True, metavar="DIR", help="Folder with latency.csv, latency_spread.csv, batch_sizes.csv."
)
@click.option("--model", required=True, type=click.Choice(tuple(SLO), case_sensitive=False), help="The paper's name.")
@click.option("-o", "--output", metavar="FILE", help="Default: standard output.")
def kairos(data: str, model: str, output: str | None) -> None:
    """Write the measurements of Kairos (HPDC'23) for one model: its instance types, profiles and service.

    Four instance types with their prices, a ModelProfile for each (mean at every measured batch, spread if it was
    measured) and an InferenceService with the paper's SLO, budget (2.5 $/h) and mix of batch sizes.

    \b
    Exit code: 0 written, 2 bad input.

    \b
    Examples:
      hetserve reference kairos --data DIR --model RM2 -o rm2.yaml && hetserve plan rm2.yaml
      hetserve reference kairos --data DIR --model MT-WND | hetserve plan - --budget 5
    """
    from hetserve.cli.profiles.reference_kairos import run  # noqa: PLC0415

    run(Path(data), model, output)
