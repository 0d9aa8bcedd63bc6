"""SuperServe's six subnets (NSDI'25) as manifests: measured on an A40, or a stand-in for the paper's RTX 2080 Ti.

profile.csv is of a fork of once-for-all by one of its authors (dhruvsgarg/once-for-all). The paper has its own times in
a picture only: profile_synthetic_2080ti.csv is a line through the A40's, stretched to fit what the text says.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hetserve.api.model_profile import MAX_BATCH
from hetserve.base.csv_rows import MOST_BYTES, CsvError, CsvRows, read_rows
from hetserve.base.files import read_text
from hetserve.cli.profiles.reference_manifests import Json, checked, instance_type, service, write
from hetserve.profiles.measurements import LONGEST, SHORTEST
from hetserve.profiles.spec import milliseconds, profile_manifest

MODEL: Final = "ofa-resnet"
WORKERS: Final = 8
"""Of the paper, one GPU each."""
SLO: Final = "36ms"


@dataclass(frozen=True, slots=True)
class PublishedTimes:
    """A file of times. deviation: column of their standard deviation, if any. gpu: product and memory."""

    file: str
    latency: str
    deviation: str | None
    gpu: tuple[str, str]
    source: str


GPUS: Final = {
    "rtx-2080ti": PublishedTimes(
        "profile_synthetic_2080ti.csv",
        "latency_ms",
        None,
        ("NVIDIA-GeForce-RTX-2080-Ti", "11264Mi"),
        "SYNTHETIC: 1.4 x the line through the A40's times at 8, 16 and 32; the paper's own are in a picture only",
    ),
    "a40": PublishedTimes(
        "profile.csv",
        "forward_ms",
        "forward_std_ms",
        ("NVIDIA-A40", "46068Mi"),
        "forward pass on an A40, from dhruvsgarg/once-for-all (not the paper's GPU)",
    ),
}


def run(folder: Path, gpu: str, output: str | None) -> None:
    """The command `reference superserve`, with its options. Raises InputError."""
    head = f"SuperServe, {GPUS[gpu].source}; written by: hetserve reference superserve --gpu {gpu}"
    write(superserve_manifests(folder, gpu), head, output)


def superserve_manifests(folder: Path, gpu: str) -> list[Json]:
    """InstanceType, ModelProfile and InferenceService, planned on eight GPUs.

    folder: of the CSV files. gpu: a key of GPUS. Raises InputError.
    """
    found = GPUS[gpu]
    times = _times(folder / found.file, found)
    variants = [{"name": _name(accuracy), "latency": {"table": rows}} for accuracy, rows in times.items()]
    product, memory = found.gpu
    documents = [
        instance_type(
            gpu,
            # No price is published: 1 $/h stands in.
            price={"hourly": "1", "per": "Instance"},
            launchTime="60s",
            resources={"cpu": "3", "memory": "12Gi"},
            gpu={"product": product, "memory": memory},
        ),
        profile_manifest(
            f"{MODEL}-{gpu}", "default", model=MODEL, instance_type=gpu, variants=variants, source=found.source
        ),
        service(
            MODEL,
            "registry.example/ofa-resnet:1.0",
            [],
            model={"name": MODEL, "variants": [{"name": _name(each), "accuracy": each} for each in times]},
            objective="MaxThroughput",
            slo={"latency": SLO, "percentile": "99.9"},
            budget={"hourly": str(WORKERS)},
            load={"batchSizes": [{"batch": 1, "weight": 1}]},
        ),
    ]
    return checked(documents, str(folder))


def _name(accuracy: str) -> str:
    """79.44 -> ``top-79-44``."""
    return f"top-{accuracy.replace('.', '-')}"


def _times(path: Path, found: PublishedTimes) -> dict[str, list[Json]]:
    """{top-1 accuracy in percent, as written: rows of its table}, of rising accuracy."""
    columns = ["accuracy_top1", "batch", found.latency, *([found.deviation] if found.deviation else [])]
    table = read_rows(read_text(str(path), MOST_BYTES), str(path), columns)
    rows: dict[str, dict[int, Json]] = {}
    for row in table.rows:
        table.positive(row, "accuracy_top1", 0, 100, "percent")
        own, batch = rows.setdefault(row.values["accuracy_top1"], {}), table.whole(row, "batch", MAX_BATCH)
        if batch in own:
            table.errors.append(f"{path}, line {row.line}: batch {batch} is there twice")
        own[batch] = {"batch": batch, **_time(table, row, found)}
    table.done()
    if not rows:
        raise CsvError([f"{path}: no line of times"])
    return {each: [rows[each][batch] for batch in sorted(rows[each])] for each in sorted(rows, key=float)}


def _time(table: CsvRows, row: Any, found: PublishedTimes) -> Json:
    mean = table.positive(row, found.latency, SHORTEST * 1e3, LONGEST * 1e3, "ms")
    if found.deviation is None or not mean:
        return {"mean": milliseconds(mean / 1e3)}
    deviation = table.positive(row, found.deviation, 0, mean * 10, "ms")
    return {"mean": milliseconds(mean / 1e3), "coefficientOfVariation": f"{deviation / mean:.6f}"}
