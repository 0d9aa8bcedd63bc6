"""Draws GPUs as a figure: a bar of memory per GPU, and one of compute where pods declare it, a colour per model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.patches import Patch

from hetserve.cli.output.plots import COLOURS, new_figure, save
from hetserve.cli.placement.gpus_picture import NO_MODEL, Legend, compute_of, declares_compute
from hetserve.sanitize import sanitize

_OVER = "#c00000"
_FREE = "#eceff1"
_NO_MODEL = "#222222"
_HATCH = "#b0b7bd"


@dataclass(frozen=True, slots=True)
class _Resource:
    """What a GPU has of it (0: unknown), and what a pod holds of a GPU's."""

    unit: str
    of_gpu: Callable[[Mapping[str, Any]], float]
    of_pod: Callable[[Mapping[str, Any], Mapping[str, Any]], float]


def draw(document: Mapping[str, Any], path: str) -> None:
    """A `gpus` document. Raises OSError."""
    gpus = document["gpus"]
    legend = Legend.of(gpus)
    figure = new_figure(8.0, max(2.0, 0.9 + 0.24 * len(gpus)))
    resources = [_MEMORY, _COMPUTE] if declares_compute(gpus) else [_MEMORY]
    for number, resource in enumerate(resources, start=1):
        axes = figure.add_subplot(1, len(resources), number)
        for row, gpu in enumerate(gpus):
            _bar(axes, row, gpu, legend, resource)
        names = [sanitize(f"{gpu['node']} / {gpu['gpu']}  {gpu['product']}") for gpu in gpus if number == 1]
        axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel(resource.unit)
        axes.spines[["top", "right"]].set_visible(False)
    patches = _legend(gpus, legend)
    drawn = figure.legend(
        handles=patches, loc="outside upper center", ncols=min(5, len(patches)), fontsize=8, frameon=False
    )
    for text in drawn.get_texts():
        text.set_parse_math(False)
    save(figure, path)


def _bar(axes: Any, row: int, gpu: Mapping[str, Any], legend: Legend, resource: _Resource) -> None:
    """One GPU: what it has, what each pod holds of it, and what is held beyond."""
    whole = resource.of_gpu(gpu)
    hatch, edge = (None, "white") if _takes_pods(gpu) else ("////", _HATCH)
    axes.barh(row, whole, color=_FREE, hatch=hatch, edgecolor=edge, linewidth=0)
    start = 0.0
    for pod in sorted(gpu["pods"], key=legend.order):
        width = resource.of_pod(pod, gpu)
        model = legend.model(pod)
        colour = _NO_MODEL if model is None else COLOURS[legend.models.index(model) % len(COLOURS)]
        axes.barh(row, width, left=start, color=colour, edgecolor="white", linewidth=0.6)
        start += width
    if whole and start > whole:  # of no GPU whose pods declare nothing is it known
        axes.barh(row, start - whole, left=whole, color="none", edgecolor=_OVER, lw=1.5)


def _gib(pod: Mapping[str, Any], gpu: Mapping[str, Any]) -> float:
    return float(gpu["memoryMiB"] if pod["wholeGpu"] else pod["memoryMiB"]) / 1024


_MEMORY = _Resource("GiB", lambda gpu: float(gpu["memoryMiB"]) / 1024, _gib)
_COMPUTE = _Resource(
    "% of compute",
    lambda gpu: 0.0 if gpu["freeComputePercent"] is None else 100.0,
    lambda pod, _gpu: float(compute_of(pod)),
)


def _takes_pods(gpu: Mapping[str, Any]) -> bool:
    return bool(gpu["healthy"] and gpu["open"])


def _legend(gpus: Sequence[Mapping[str, Any]], legend: Legend) -> list[Patch]:
    named = [model for model in legend.models if model != NO_MODEL]
    patches = [Patch(color=COLOURS[number % len(COLOURS)], label=sanitize(model)) for number, model in enumerate(named)]
    patches += [Patch(color=_NO_MODEL, label="no model")] if NO_MODEL in legend.models else []
    patches.append(Patch(color=_FREE, label="free"))
    if not all(map(_takes_pods, gpus)):
        patches.append(Patch(facecolor=_FREE, edgecolor=_HATCH, hatch="////", linewidth=0, label="takes no pods"))
    if any(gpu["freeMiB"] < 0 or (gpu["freeComputePercent"] or 0) < 0 for gpu in gpus):
        patches.append(Patch(facecolor="none", edgecolor=_OVER, label="more than there is"))
    return patches
