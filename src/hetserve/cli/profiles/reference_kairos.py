"""The public measurements of Kairos (HPDC'23) as manifests, with the prices and the budget of its Tables 3 and 4.

latency.csv, latency_spread.csv and batch_sizes.csv come from its artifact (boringlee24/hpdc23-kairos).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hetserve.api.model_profile import MAX_BATCH
from hetserve.api.scalars import dns_label
from hetserve.base.csv_rows import MOST_BYTES, CsvError, CsvRows, read_rows
from hetserve.base.files import read_text
from hetserve.cli.profiles.commands import SLO
from hetserve.cli.profiles.reference_manifests import Json, checked, instance_type, service, write
from hetserve.profiles.measurements import LONGEST, SHORTEST
from hetserve.profiles.spec import milliseconds, profile_manifest

_SOURCE: Final = "means over 99 samples per batch of the Kairos artifact (boringlee24/hpdc23-kairos), with their spread"
_QUANTILES: Final = {"min": "min_ms", "p50": "p50_ms", "p90": "p90_ms", "p99": "p99_ms", "max": "max_ms"}
BUDGET: Final = "2.5"
# One instance requests more than half of its node.
TYPES: Final = {
    "g4dn.xlarge": ("0.526", "90s", "3", "12Gi"),
    "c5n.2xlarge": ("0.432", "60s", "6", "14Gi"),
    "r5n.large": ("0.149", "60s", "1500m", "10Gi"),
    "t3.xlarge": ("0.1664", "60s", "3", "10Gi"),
}
"""By name: $/h, time to launch, CPU and memory."""
_GPU: Final = {"g4dn.xlarge": {"gpu": {"product": "Tesla-T4", "memory": "15360Mi"}}}


def run(folder: Path, model: str, output: str | None, scale: float) -> None:
    """The command `reference kairos`, with its options. Raises InputError."""
    command = f"hetserve reference kairos --model {model}" + (f" --time-scale {scale:g}" if scale != 1 else "")
    head = f"{model} on Kairos's four instance types; written by: {command}"
    write(kairos_manifests(folder, model, scale), head, output)


def kairos_manifests(folder: Path, model: str, scale: float) -> list[Json]:
    """InstanceTypes, ModelProfiles and the InferenceService of one model.

    A batch of latency.csv is a table entry, with quantiles if latency_spread.csv has them. folder: of the CSV files.
    model: a key of SLO. scale: factor on latencies and SLO. Raises InputError, also for a profile that no API server
    accepts.
    """
    means = _latencies(folder / "latency.csv", model)
    spreads = _spreads(folder / "latency_spread.csv", model, means)
    mix = _mix(folder / "batch_sizes.csv")
    documents = [_instance_type(name) for name in means]
    documents += [_profile(model, name, means[name], spreads[name]) for name in means]
    documents.append(_service(model, mix))
    return checked(documents, str(folder), scale)


def _read(path: Path, columns: list[str]) -> CsvRows:
    return read_rows(read_text(str(path), MOST_BYTES), str(path), columns)


def _milliseconds(table: CsvRows, row: Any, column: str) -> str:
    return milliseconds(table.positive(row, column, SHORTEST * 1e3, LONGEST * 1e3, "ms") / 1e3)


def _latencies(path: Path, model: str) -> dict[str, dict[int, str]]:
    """{type: {batch: mean}}, in the paper's order."""
    table = _read(path, ["model", "instance", "batch", "latency_ms"])
    found: dict[str, dict[int, str]] = {name: {} for name in TYPES}
    for row in table.rows:
        if row.values["model"] != model:
            continue
        batch = table.whole(row, "batch", MAX_BATCH)
        own = found.get(row.values["instance"])
        if own is None:
            raise CsvError([f"{path}, line {row.line}: no price is known of instance {row.values['instance']!r}; "
                            f"there are: {', '.join(TYPES)}"])  # fmt: skip
        if batch in own:
            table.errors.append(f"{path}, line {row.line}: batch {batch} is there twice")
        own[batch] = _milliseconds(table, row, "latency_ms")
    table.done()
    missing = [name for name, own in found.items() if not own]
    if missing:
        raise CsvError([f"{path}: no line of model {model} on {', '.join(missing)}"])
    return {name: dict(sorted(own.items())) for name, own in found.items()}


def _spreads(path: Path, model: str, means: Mapping[str, Mapping[int, str]]) -> dict[str, dict[int, Json]]:
    table = _read(path, ["model", "instance", "batch", *_QUANTILES.values()])
    found: dict[str, dict[int, Json]] = {name: {} for name in means}
    for row in table.rows:
        name, batch = row.values["instance"], table.whole(row, "batch", MAX_BATCH)
        if row.values["model"] != model or name not in found:
            continue
        if batch not in means[name]:
            table.errors.append(f"{path}, line {row.line}: batch {batch} of {name} has no mean in latency.csv")
        found[name][batch] = {field: _milliseconds(table, row, column) for field, column in _QUANTILES.items()}
    table.done()
    return found


def _mix(path: Path) -> list[Json]:
    table = _read(path, ["batch_bin", "probability"])
    mix = [
        {"batch": table.whole(row, "batch_bin", MAX_BATCH), "weight": table.positive(row, "probability", 1e-12, 1, "")}
        for row in table.rows
    ]
    table.done()
    return mix


def _instance_type(name: str) -> Json:
    price, launch, cpu, memory = TYPES[name]
    host = {"cpu": cpu, "memory": memory}
    price_spec = {"hourly": price, "per": "Instance"}
    return instance_type(name, price=price_spec, launchTime=launch, resources=host, **_GPU.get(name, {}))


def _profile(model: str, name: str, means: Mapping[int, str], spreads: Mapping[int, Json]) -> Json:
    table = [{"batch": batch, "mean": mean, **spreads.get(batch, {})} for batch, mean in means.items()]
    label = dns_label(model)
    return profile_manifest(
        f"{label}-{name}", "default", model=label, instance_type=name, latency={"table": table}, source=_SOURCE
    )


def _service(model: str, mix: list[Json]) -> Json:
    label = dns_label(model)
    return service(
        label,
        "docker.io/tensorflow/serving:2.18.0",
        [f"--model_name={label}", f"--model_base_path=/models/{label}"],
        model={"name": label},
        objective="MaxThroughput",
        slo={"latency": SLO[model], "percentile": "99"},
        budget={"hourly": BUDGET},
        load={"batchSizes": mix},
    )
