"""The commands `hetserve profile` and `hetserve reference`; what they do is imported when they run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from hetserve.cli import values
from hetserve.cli.cluster.snapshot import cluster_options, system_option
from hetserve.cli.output.plots import plot_file
from hetserve.registry.choices import FIT_KINDS, SHARING_MODES

_FORMATS = ("yaml", "json", "table")


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
def fit(**options: Any) -> None:
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
    from hetserve.cli.profiles.profile_report import run  # noqa: PLC0415

    run(**options)


@profile.command()
@click.argument("service")
@click.option("-n", "--namespace", metavar="NS", help="Default: that of the context, else default.")
@click.option("--instance-type", "instance_types", multiple=True, metavar="TYPE", help="Only this; may be repeated.")
@click.option("--url", metavar="URL", help="Probe port of a router without a cluster, such as http://127.0.0.1:8891.")
@click.option("--kind", type=click.Choice(FIT_KINDS), default="auto", help="As of fit; default: auto.")
@click.option("--keep-wild", is_flag=True, help="Keep single cold starts and stalls, which are left out by default.")
@cluster_options
@system_option
@click.option("-o", "--output", type=click.Choice(_FORMATS), default="yaml", help="Form; default: yaml.")
def learned(system_namespace: str | None, **options: Any) -> None:
    """Make the ModelProfiles of SERVICE anew, of the times that its router has seen.

    The router keeps the last 64 times for each instance type and batch since it leads, and fits nothing. Each profile
    keeps its name and all but its latency, so that to apply it replaces the one in force: read it first. Beyond the
    largest batch that was seen it is the profile in force, times the median of what was seen over it at the three
    largest. Types with fewer than three batch sizes, and those on which instances share GPUs, are left out with a note.

    \b
    Exit code: 0 at least one profile was written, 2 none was: no router leads, it does not serve SERVICE, or has seen
      too little.

    \b
    Examples:
      hetserve profile learned rm2 -n team -o table
      hetserve profile learned rm2 -n team | kubectl apply -f -
      hetserve profile learned rm2 --url http://127.0.0.1:8891 -o json
    """
    from hetserve.cli.profiles.learned import run  # noqa: PLC0415

    run(system=system_namespace, **options)


SLO: Final = {"RM2": "350ms", "NCF": "5ms", "WND": "25ms", "MT-WND": "25ms", "DIEN": "35ms"}
"""By model, as the paper names it (Kairos, HPDC'23, Table 3)."""

SUPERSERVE_GPUS: Final = ("rtx-2080ti", "a40")
_output = click.option("-o", "--output", metavar="FILE", help="Default: standard output.")


@click.group()
def reference() -> None:
    """Published measurements as manifests."""


@reference.command()
@click.option(
    "--data", required=True, metavar="DIR", help="Folder with latency.csv, latency_spread.csv, batch_sizes.csv."
)
@click.option("--model", required=True, type=click.Choice(tuple(SLO), case_sensitive=False), help="The paper's name.")
@click.option(
    "--time-scale",
    metavar="X",
    default="1",
    show_default=True,
    callback=values.number(lambda x: 0.001 <= x <= 1000, "a number from 0.001 to 1000, for example 20"),
    help="Multiplies all latencies and the SLO: at X times the latency, 1/X of the load keeps instances as busy.",
)
@_output
def kairos(data: str, model: str, time_scale: float, output: str | None) -> None:
    """Write the measurements of Kairos (HPDC'23) for one model: its instance types, profiles and service.

    Four instance types with their prices, a ModelProfile for each (mean at every measured batch, spread if it was
    measured) and an InferenceService with the paper's SLO, budget (2.5 $/h) and mix of batch sizes.

    \b
    Exit code: 0 written, 2 bad input.

    \b
    Examples:
      hetserve reference kairos --data DIR --model RM2 -o rm2.yaml && hetserve plan rm2.yaml
      hetserve reference kairos --data DIR --model MT-WND | hetserve plan - --budget 5
      hetserve reference kairos --data DIR --model NCF --time-scale 20 -o slow-ncf.yaml
    """
    from hetserve.cli.profiles.reference_kairos import run  # noqa: PLC0415

    run(Path(data), model, output, time_scale)


@reference.command()
@_output
def fang(output: str | None) -> None:
    """Write the measurements of Fang et al. (CIKM'17): two GPU types, and YOLO with a full and a tiny variant.

    Latencies follow from Table 1; kappa, and the deadlines of 1 and 2 s, are the paper's. Prices are those of the time.
    The service is planned on one p2.xlarge; the paper's cluster is --counts g2.2xlarge=5,p2.xlarge=5.

    \b
    Exit code: 0 written.

    \b
    Examples:
      hetserve reference fang -o fang.yaml
      hetserve reference fang | hetserve simulate - --policy max-batch --rate 25 --noise 0.03
    """
    from hetserve.cli.profiles.reference_fang import run  # noqa: PLC0415

    run(output)


@reference.command()
@click.option("--data", required=True, metavar="DIR", help="Folder with profile_synthetic_2080ti.csv or profile.csv.")
@click.option(
    "--gpu",
    type=click.Choice(SUPERSERVE_GPUS),
    default=SUPERSERVE_GPUS[0],
    show_default=True,
    help="rtx-2080ti: a SYNTHETIC stand-in for the paper's times; a40: measured.",
)
@_output
def superserve(data: str, gpu: str, output: str | None) -> None:
    """Write the six subnets of SuperServe (NSDI'25) as variants of one model, planned on eight GPUs.

    The SLO is the paper's 36 ms. Prices are not published: 1 $/h stands in.

    \b
    Exit code: 0 written, 2 bad input.

    \b
    Examples:
      hetserve reference superserve --data DIR -o superserve.yaml
      hetserve reference superserve --data DIR | hetserve simulate - --policy max-batch --arrivals bursty:1500,4900,2
    """
    from hetserve.cli.profiles.reference_superserve import run  # noqa: PLC0415

    run(Path(data), gpu, output)
