"""`hetserve reference`: writes published measurements as manifests."""

from __future__ import annotations

from pathlib import Path

import click

from hetserve.cli.output.messages import refuse
from hetserve.cli.profiles.kairos_paper import SLO


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
    from hetserve.cli.profiles.reference_kairos import CsvError, ManifestError, kairos_manifests  # noqa: PLC0415

    try:
        documents = kairos_manifests(Path(data), model)
    except (CsvError, ManifestError) as error:
        refuse(*error.errors)
    text = _yaml(documents, model)
    if output is None:
        click.echo(text, nl=False)
        return
    try:
        Path(output).write_text(text, encoding="utf-8")
    except OSError as error:
        refuse(f"-o {output}: cannot be written: {error.strerror}")


def _yaml(documents: list[dict[str, object]], model: str) -> str:
    import yaml  # noqa: PLC0415

    head = f"# {model} on Kairos's four instance types; written by: hetserve reference kairos --model {model}\n"
    # None: one line per entry of a table and of the mix.
    parts = (yaml.safe_dump(one, sort_keys=False, default_flow_style=None, width=200) for one in documents)
    return head + "".join(f"---\n{part}" for part in parts)
