"""`hetserve profile`: makes model profiles from measurements."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetserve.base.files import UnreadableError, read_text, shown_name
from hetserve.cli import values
from hetserve.cli.output import messages
from hetserve.cli.output.messages import refuse
from hetserve.cli.output.plots import draw_or_refuse, plot_file
from hetserve.registry.choices import FIT_KINDS

if TYPE_CHECKING:
    from hetserve.profiles.fit import Fit
    from hetserve.profiles.samples import Samples

_FORMATS = ("yaml", "json", "table")


@click.group()
def profile() -> None:
    """Latency profiles: how long a model takes on an instance type.

    \b
    Example:
      hetserve profile fit samples.csv --model rm2 --instance-type g4dn.xlarge --plot fit.png > profile.yaml
    """


@profile.command()
@click.argument("samples", metavar="SAMPLES.CSV")
@click.option("--model", required=True, metavar="NAME", callback=values.label, help="As in spec.model.name.")
@click.option("--instance-type", required=True, metavar="TYPE", callback=values.subdomain, help="As the InstanceType.")
@click.option("--name", metavar="NAME", callback=values.subdomain, help="Default: MODEL-TYPE.")
@click.option("--namespace", metavar="NAME", default="default", show_default=True, callback=values.label)
@click.option(
    "--kind",
    type=click.Choice(FIT_KINDS),
    default="auto",
    help="Default: auto, a line if it is within 5 % of every batch.",
)
@click.option("--keep-wild", is_flag=True, help="Keep single cold starts and stalls, which are left out by default.")
@click.option("-o", "--output", type=click.Choice(_FORMATS), default="yaml", help="Form; default: yaml.")
@click.option("--plot", metavar="FILE", callback=plot_file, help="Draw samples and fit: .png or .svg.")
def fit(  # noqa: PLR0917  options arrive by name
    samples: str,
    model: str,
    instance_type: str,
    name: str | None,
    namespace: str,
    kind: Any,
    keep_wild: bool,
    output: str,
    plot: str | None,
) -> None:
    """Make a ModelProfile from the measured latencies in SAMPLES.CSV (- for standard input).

    The first line names the columns: `batch` (items in the query) and `latency_ms` (milliseconds) or `latency`
    (seconds); each further line is one query. If there are columns `model`, `instance` or `instance_type`, only
    lines of this model and type count. Batches with 20 or more samples get measured quantiles, others a
    coefficient of variation.

    \b
    Exit code: 0 the profile was written, 2 bad input.

    \b
    Examples:
      hetserve profile fit samples.csv --model rm2 --instance-type g4dn.xlarge > profile.yaml
      hetserve profile fit samples.csv --model rm2 --instance-type g4dn.xlarge -o table --plot fit.png
      hetserve profile fit samples.csv --model rm2 --instance-type g4dn.xlarge --kind linear | kubectl apply -f -
    """
    from hetserve.profiles.fit import fit_samples  # noqa: PLC0415

    title = f"{model} on {instance_type}"
    measured = _measured(samples, model, instance_type)
    fitted = fit_samples(measured, kind, keep_wild=keep_wild)
    manifest = _manifest(measured, fitted, name or f"{model}-{instance_type}", namespace, (model, instance_type))
    if plot is not None:
        draw_or_refuse(lambda: _draw(measured, fitted, title, plot), plot)
    for note in fitted.notes:
        messages.note(note)
    text = _table(measured, fitted, title) if output == "table" else _document(manifest, output)
    click.echo(text, nl=not text.endswith("\n"))


def _measured(path: str, model: str, instance_type: str) -> Samples:
    """Samples of the file; exits with all errors."""
    from hetserve.profiles.csv_rows import MOST_BYTES, CsvError  # noqa: PLC0415
    from hetserve.profiles.samples import read_samples  # noqa: PLC0415

    try:
        return read_samples(read_text(path, MOST_BYTES), shown_name(path), model, instance_type)
    except UnreadableError as error:
        refuse(str(error))
    except CsvError as error:
        refuse(*error.errors)


def _manifest(samples: Samples, fitted: Fit, name: str, namespace: str, of: tuple[str, str]) -> dict[str, Any]:
    from pydantic import ValidationError  # noqa: PLC0415

    from hetserve.api.manifest_errors import field_errors  # noqa: PLC0415
    from hetserve.api.model_profile import ModelProfile  # noqa: PLC0415
    from hetserve.profiles.spec import latency_of, profile_manifest  # noqa: PLC0415

    how = "least-squares line through the means" if fitted.kind == "linear" else "table of the means"
    source = f"{how} of {samples.count} samples at {len(fitted.entries)} batches in {Path(samples.name).name}"
    model, instance_type = of
    latency = latency_of(fitted)
    manifest = profile_manifest(
        name, namespace, model=model, instance_type=instance_type, latency=latency, source=source
    )
    try:
        ModelProfile.model_validate(manifest)
    except ValidationError as error:
        refuse(*(f"{samples.name}: the profile made of it is not valid: {line}" for line in field_errors(error)))
    return manifest


def _table(samples: Samples, fitted: Fit, title: str) -> str:
    from hetserve.cli.profiles.profile_report import as_table  # noqa: PLC0415

    return as_table(samples, fitted, title)


def _document(manifest: dict[str, Any], output: str) -> str:
    if output == "json":
        import json  # noqa: PLC0415

        return json.dumps(manifest, indent=2, allow_nan=False)
    import yaml  # noqa: PLC0415

    # One line per entry.
    return str(yaml.safe_dump(manifest, sort_keys=False, default_flow_style=None, width=200))


def _draw(samples: Samples, fitted: Fit, title: str, path: str) -> None:
    from hetserve.cli.profiles.profile_plot import draw  # noqa: PLC0415

    draw(samples, fitted, title, path)
