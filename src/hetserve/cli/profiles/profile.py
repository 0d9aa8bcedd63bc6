"""`hetserve profile`: makes model profiles from measurements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetserve.base.files import UnreadableError, read_text, shown_name
from hetserve.cli import values
from hetserve.cli.output import messages
from hetserve.cli.output.messages import refuse
from hetserve.cli.output.plots import draw_or_refuse, plot_file
from hetserve.registry.choices import FIT_KINDS, SHARING_MODES, SharingMode

if TYPE_CHECKING:
    from hetserve.profiles.fit import Fit
    from hetserve.profiles.measurements import Measurements
    from hetserve.profiles.sharing_fit import SharingFit

_FORMATS = ("yaml", "json", "table")
_NO_MEMORY = "no --gpu-memory: set gpuMemory in the profile; without it each instance takes all memory of a GPU"


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The profile to make, and how."""

    model: str
    instance_type: str
    name: str | None
    namespace: str
    kind: Any
    sharing_mode: Any
    batch: int | None
    gpu_memory: str | None
    keep_wild: bool


@click.group()
def profile() -> None:
    """Model profiles: how long a model takes on an instance type, and how it shares a GPU.

    \b
    Example:
      hetserve profile fit samples.csv --model rm2 --instance-type g4dn.xlarge --plot fit.png > profile.yaml
    """


@profile.command()
@click.argument("samples", metavar="SAMPLES.CSV")
@click.option("--model", required=True, metavar="NAME", callback=values.label, help="As in spec.model.name.")
@click.option(
    "--instance-type", required=True, metavar="TYPE", callback=values.subdomain, help="Name of the instance type."
)
@click.option("--name", metavar="NAME", callback=values.subdomain, help="Default: MODEL-TYPE.")
@click.option("--namespace", metavar="NAME", default="default", show_default=True, callback=values.label)
@click.option(
    "--kind",
    type=click.Choice(FIT_KINDS),
    default="auto",
    help="Default: auto, a line if it is within 5 % of every batch.",
)
@click.option(
    "--sharing-mode",
    type=click.Choice(SHARING_MODES),
    help="How the GPU was shared by copies and neighbours; needed for these.",
)
@click.option(
    "--batch",
    type=click.IntRange(min=1),
    metavar="N",
    help="Largest batch of the mix, at which the compute share is fitted; default: the largest at which copies ran.",
)
@click.option(
    "--gpu-memory",
    metavar="QUANTITY",
    callback=values.quantity,
    help="GPU memory that an instance holds, for example 3Gi; without it the profile shares no GPU.",
)
@click.option("--keep-wild", is_flag=True, help="Keep single cold starts and stalls, which are left out by default.")
@click.option("-o", "--output", type=click.Choice(_FORMATS), default="yaml", help="Form; default: yaml.")
@click.option("--plot", metavar="FILE", callback=plot_file, help="Draw samples and fit: .png or .svg.")
def fit(samples: str, output: str, plot: str | None, **options: Any) -> None:
    """Make a ModelProfile from the measured latencies in SAMPLES.CSV (- for standard input).

    The first line names the columns: `batch` (items in the query) and `latency_ms` (milliseconds) or `latency`
    (seconds); each further line is one query. If there are columns `model`, `instance` or `instance_type`, only
    lines of this model and type count. Batches with 20 or more samples get measured quantiles, others a
    coefficient of variation.

    `copies`: how many of the model ran on one GPU, each always busy (empty: 1). `neighbour`, `neighbour_batch`: the
    other model on the GPU, always busy at that batch. With --sharing-mode the copies give `computeShare`, and the
    lines of other models with this one as `neighbour` give `interference`; both are the upper ends of 95 %
    confidence intervals, of 20 or more queries. A counter (`GPU_UTIL` in percent, `SM_ACTIVE`, `GR_ENGINE_ACTIVE`)
    without copies gives a first guess. docs/how-to-measure-sharing.md says how to measure.

    \b
    Exit code: 0 the profile was written, 2 bad input.

    \b
    Examples:
      hetserve profile fit samples.csv --model rm2 --instance-type g4dn.xlarge > profile.yaml
      hetserve profile fit samples.csv --model rm2 --instance-type g4dn.xlarge -o table --plot fit.png
      hetserve profile fit samples.csv --model rm2 --instance-type g4dn.xlarge --kind linear | kubectl apply -f -
      hetserve profile fit runs.csv --model rm2 --instance-type g4dn.xlarge --sharing-mode TimeSlicing --plot fit.png
    """
    from hetserve.profiles.fit import fit_samples  # noqa: PLC0415

    wanted = _Wanted(**options)
    title = f"{wanted.model} on {wanted.instance_type}"
    measured = _measured(samples, wanted.model, wanted.instance_type)
    fitted = fit_samples(measured.alone, wanted.kind, keep_wild=wanted.keep_wild)
    sharing = _sharing(measured, wanted.sharing_mode, wanted.batch, keep_wild=wanted.keep_wild)
    manifest = _manifest(measured, fitted, sharing, wanted)
    if plot is not None:
        draw_or_refuse(lambda: _draw(measured, fitted, sharing, title, plot), plot)
    unshared = [_NO_MEMORY] if sharing and wanted.gpu_memory is None else []
    for note in (*fitted.notes, *(sharing.notes if sharing else ()), *unshared):
        messages.note(note)
    text = _table(measured, fitted, sharing, title) if output == "table" else _document(manifest, output)
    click.echo(text, nl=not text.endswith("\n"))


def _measured(path: str, model: str, instance_type: str) -> Measurements:
    """Measurements of the file; exits with all errors."""
    from hetserve.base.csv_rows import MOST_BYTES, CsvError  # noqa: PLC0415
    from hetserve.profiles.measurements import read_measurements  # noqa: PLC0415

    try:
        return read_measurements(read_text(path, MOST_BYTES), shown_name(path), model, instance_type)
    except UnreadableError as error:
        refuse(str(error))
    except CsvError as error:
        refuse(*error.errors)


def _sharing(
    measured: Measurements, mode: SharingMode | None, batch: int | None, *, keep_wild: bool
) -> SharingFit | None:
    """Fit of copies and neighbours, if they were measured; exits with all errors."""
    from hetserve.base.csv_rows import CsvError  # noqa: PLC0415
    from hetserve.profiles.sharing_fit import fit_sharing  # noqa: PLC0415

    shared = measured.copied or measured.neighboured
    if mode is not None:
        try:
            return fit_sharing(measured, mode, batch, keep_wild=keep_wild)
        except CsvError as error:
            refuse(*error.errors)
    if shared:
        refuse(
            f"{measured.name} has runs of copies or neighbours: say how they shared the GPU, "
            f"--sharing-mode {' or '.join(SHARING_MODES)}"
        )
    if batch is not None:
        refuse(f"--batch {batch}: is for the compute share; say --sharing-mode, too, or leave it out")
    if measured.counters:
        names = ", ".join(measured.counters)
        messages.note(f"{names}: not used; with --sharing-mode it gives a first guess of the compute share")
    return None


def _manifest(measured: Measurements, fitted: Fit, sharing: SharingFit | None, wanted: _Wanted) -> dict[str, Any]:
    from pydantic import ValidationError  # noqa: PLC0415

    from hetserve.api.manifest_errors import field_errors  # noqa: PLC0415
    from hetserve.api.model_profile import ModelProfile  # noqa: PLC0415
    from hetserve.profiles.sharing_fit import share_source, sharing_fields  # noqa: PLC0415
    from hetserve.profiles.spec import latency_of, profile_manifest  # noqa: PLC0415

    samples = measured.alone
    how = "least-squares line through the means" if fitted.kind == "linear" else "table of the means"
    source = f"{how} of {samples.count} samples at {len(fitted.entries)} batches in {Path(samples.name).name}"
    if sharing is not None:
        source += f"; {share_source(sharing.share)}"
    manifest = profile_manifest(
        wanted.name or f"{wanted.model}-{wanted.instance_type}",
        wanted.namespace,
        model=wanted.model,
        instance_type=wanted.instance_type,
        latency=latency_of(fitted),
        source=source,
    )
    if wanted.gpu_memory is not None:
        manifest["spec"]["gpuMemory"] = wanted.gpu_memory
    if sharing is not None:
        manifest["spec"] |= sharing_fields(sharing)
    try:
        ModelProfile.model_validate(manifest)
    except ValidationError as error:
        refuse(*(f"{samples.name}: the profile made of it is not valid: {line}" for line in field_errors(error)))
    return manifest


def _table(measured: Measurements, fitted: Fit, sharing: SharingFit | None, title: str) -> str:
    from hetserve.cli.profiles.profile_report import as_table  # noqa: PLC0415

    return as_table(measured.alone, fitted, title, sharing)


def _document(manifest: dict[str, Any], output: str) -> str:
    if output == "json":
        import json  # noqa: PLC0415

        return json.dumps(manifest, indent=2, allow_nan=False)
    import yaml  # noqa: PLC0415

    # One line per entry.
    return str(yaml.safe_dump(manifest, sort_keys=False, default_flow_style=None, width=200))


def _draw(measured: Measurements, fitted: Fit, sharing: SharingFit | None, title: str, path: str) -> None:
    from hetserve.cli.profiles.profile_plot import draw  # noqa: PLC0415

    draw(measured.alone, fitted, title, path, sharing)
