"""Draws GPUs on a terminal, a bar per GPU and a letter and colour per model, and as a figure."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

import click
from rich.table import Table

from hetserve.cli.cluster.client import ClusterError
from hetserve.cli.cluster.snapshot import Source
from hetserve.cli.output.plots import COLOURS as PLOT_COLOURS
from hetserve.cli.output.plots import draw_or_refuse, new_figure, save
from hetserve.cli.output.streams import dump
from hetserve.cli.output.terminal import Block, Styled, counted, grid, styled, text_of
from hetserve.cli.placement.placed import follow, free_compute, gpus_document, placer_of
from hetserve.placement.placer import Placer
from hetserve.sanitize import sanitize

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
_OVER, _FREE, _DARK, _HATCH = "#c00000", "#eceff1", "#222222", "#b0b7bd"
BAR: Final = 26
COMPUTE_BAR: Final = 12
COLOURS: Final = ("cyan", "magenta", "green", "yellow", "blue", "bright_cyan", "bright_magenta", "bright_green")
_LETTERS: Final = ascii_uppercase + ascii_lowercase
NO_MODEL: Final = "(no model)"
_FEW_PROBLEMS: Final = 12


@dataclass(frozen=True, slots=True)
class Legend:
    """Letter and colour per model; letters repeat after 52.

    `ambiguous`: models of several namespaces, which are named with theirs: they may share a GPU.
    """

    models: tuple[str, ...]
    ambiguous: frozenset[str] = frozenset()

    @classmethod
    def of(cls, gpus: Sequence[Mapping[str, Any]]) -> Legend:
        pods = [pod for gpu in gpus for pod in gpu["pods"]]
        named = {(pod["namespace"], pod["model"]) for pod in pods if pod["model"] is not None}
        count = Counter(model for _, model in named)
        legend = cls((), frozenset(model for model in count if count[model] > 1))
        found = {legend.model(pod) for pod in pods} - {None}
        without = (NO_MODEL,) if any(pod["model"] is None for pod in pods) else ()
        return replace(legend, models=(*sorted(map(str, found)), *without))

    def model(self, pod: Mapping[str, Any]) -> str | None:
        """Name of a pod's model in the legend; None: it has none."""
        model: str | None = pod["model"]
        return f"{pod['namespace']}/{model}" if model in self.ambiguous else model

    def order(self, pod: Mapping[str, Any]) -> tuple[str, str]:
        return self.model(pod) or "", pod["name"]

    def letter(self, model: str | None) -> str:
        return "*" if model is None else _LETTERS[self.models.index(model) % len(_LETTERS)]

    def colour(self, model: str | None) -> str:
        return "white" if model is None else COLOURS[self.models.index(model) % len(COLOURS)]

    def text(self) -> str:
        named = [f"{self.letter(model)} {model}" for model in self.models if model != NO_MODEL]
        return "   ".join([*named, *([f"* {NO_MODEL}"] if NO_MODEL in self.models else [])])


def run(nodes: tuple[str, ...], output: str, plot: str | None, *, watch: bool, **source_of: str | None) -> None:
    """The command `gpus`, with its options. Raises ClusterError, also if a node does not exist."""
    source = Source.of(**source_of)
    if watch:
        _watch(source, nodes, output)
        return
    snapshot = source.snapshot()
    placer = placer_of(snapshot)
    if plot is not None:
        draw_or_refuse(lambda: draw(gpus_document(placer, nodes), plot), plot)
    click.echo(_render(placer, nodes, output, snapshot.taken_at), nl=False)


def _render(placer: Placer, nodes: tuple[str, ...], output: str, taken_at: float | None) -> str:
    for node in nodes:
        if placer.ledger.node(node) is None:
            raise ClusterError(f"--node {node}: no such node")
    document = gpus_document(placer, nodes, taken_at)
    if output in {"json", "yaml"}:
        return dump([document], output)
    return text_of(blocks(document, wide=output == "wide"))


def _watch(source: Source, nodes: tuple[str, ...], output: str) -> None:
    drawn = ""
    try:
        for placer in follow(source.live()):
            text = _render(placer, nodes, output, None)
            if text != drawn:
                click.echo((_CLEAR if sys.stdout.isatty() else "") + text, nl=False)
                drawn = text
    except KeyboardInterrupt:
        return


def blocks(document: Mapping[str, Any], *, wide: bool) -> list[Block]:
    """A `gpus` document; `wide` names the pods."""
    totals, gpus, problems = document["totals"], document["gpus"], document["problems"]
    legend = Legend.of(gpus)
    lines = [("memory", _memory(totals)), ("free", _free(totals))]
    lines += [("models", legend.text())] if legend.models else []
    lines += [("problem", problem) for problem in problems[:_FEW_PROBLEMS]]
    if len(problems) > _FEW_PROBLEMS:
        lines.append(("problem", f"and {len(problems) - _FEW_PROBLEMS} more: -o json lists them all"))
    title = ", ".join(counted(totals[f"{what.lower()}s"], what) for what in ("GPU", "node", "pod"))
    return [Block(title, tuple(lines), (_table(gpus, legend, wide=wide),) if gpus else ())]


def _memory(totals: Mapping[str, Any]) -> str:
    unhealthy = f", {totals['unhealthyGpus']} unhealthy" if totals["unhealthyGpus"] else ""
    return f"{totals['memoryMiB']} MiB in all; {totals['idleGpus']} of the GPUs idle{unhealthy}"


def _free(totals: Mapping[str, Any]) -> str:
    text = f"{totals['freeMiB']} MiB, at most {totals['largestFreeMiB']} MiB on one GPU"
    if totals["fragmentation"] is None:
        return text
    median = totals["medianRequestMiB"]
    return f"{text}; {totals['fragmentation']:.0%} of it where the median pod ({median} MiB) has no room"


def _table(gpus: Sequence[Mapping[str, Any]], legend: Legend, *, wide: bool) -> Table:
    compute = declares_compute(gpus)
    amounts = ("MEMORY", ">FREE MIB", *(("COMPUTE", ">FREE %") if compute else ()))
    table = grid("NODE", "GPU", "PRODUCT", *amounts, "PODS" if wide else "HELD MIB")
    for column in table.columns[:-1]:
        column.no_wrap = True
    largest = max(gpu["memoryMiB"] for gpu in gpus)
    shown = ""
    for gpu in gpus:
        node = gpu["node"] if gpu["node"] != shown else ""
        shown = gpu["node"]
        product = gpu["product"] if gpu["healthy"] else styled(f"{gpu['product']} unhealthy", "bold red")
        free = styled(str(gpu["freeMiB"]), "bold red" if gpu["freeMiB"] < 0 else "")
        held = _pods(gpu) if wide else _held(gpu, legend)
        cells = [_compute_bar(gpu, legend), _free_compute(gpu)] if compute else []
        table.add_row(node, gpu["gpu"], product, bar(gpu, largest, legend), free, *cells, held)
    return table


def declares_compute(gpus: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a pod on one of the GPUs declares compute: else nothing is shown of it."""
    return any(pod["computePercent"] is not None for gpu in gpus for pod in gpu["pods"])


def compute_of(pod: Mapping[str, Any], gpu: Mapping[str, Any]) -> float:
    """Percent of a GPU's compute that a pod on it holds; 0 if it declares none.

    Of one with terms, its part of what all take together of what they tolerate: no percent of its own sums up.
    """
    if pod["wholeGpu"] or pod["sharing"] is None:
        return 100 if pod["wholeGpu"] else pod["computePercent"] or 0
    shares = {one["uid"]: float(one["sharing"]["share"]) for one in gpu["pods"] if one["sharing"] is not None}
    return float(100 - (gpu["freeComputePercent"] or 0)) * shares[pod["uid"]] / sum(shares.values())


def _free_compute(gpu: Mapping[str, Any]) -> Styled:
    percent = gpu["freeComputePercent"]
    return styled(free_compute(gpu), "bold red" if percent is not None and percent < 0 else "")


def _compute_bar(gpu: Mapping[str, Any], legend: Legend) -> Styled:
    """A GPU's compute as characters: letters for what pods declare, dots for what is free, ! for more than there is."""
    text, end = styled(""), 0.0
    for pod in sorted(gpu["pods"], key=legend.order):
        end += compute_of(pod, gpu)
        until = min(round(COMPUTE_BAR * end / 100), COMPUTE_BAR)
        text.append(legend.letter(legend.model(pod)) * (until - len(text)), legend.colour(legend.model(pod)))
    if end > 100:
        text.append("!", "bold red")
    sign = "·" if gpu["freeComputePercent"] is not None else "?"
    text.append(sign * (COMPUTE_BAR - len(text)), "dim")
    return text


def bar(gpu: Mapping[str, Any], largest: int, legend: Legend) -> Styled:
    """A GPU's memory as characters: letters for pods, ! for over-use.

    Free memory: a dot, x if unhealthy, ? on a closed node.
    """
    width = max(1, round(BAR * gpu["memoryMiB"] / largest))
    text, end, cells = styled(""), 0, 0
    for pod in sorted(gpu["pods"], key=legend.order):
        end += gpu["memoryMiB"] if pod["wholeGpu"] else pod["memoryMiB"]
        # Round the running sum: small pods would exceed the bar.
        until = max(cells + 1, round(width * end / gpu["memoryMiB"]))
        text.append(legend.letter(legend.model(pod)) * (until - cells), legend.colour(legend.model(pod)))
        cells = until
    if gpu["freeMiB"] < 0:
        text.truncate(width)
        text.append("!" * min(8, max(1, cells - width)), "bold red")
        return text
    text.truncate(width)
    sign, colour = ("x", "red") if not gpu["healthy"] else ("·", "dim") if gpu["open"] else ("?", "yellow")
    text.append(sign * (width - len(text)), colour)
    return text


def _held(gpu: Mapping[str, Any], legend: Legend) -> Styled:
    if not gpu["pods"]:
        return styled("idle", "dim")
    parts = []
    for pod in sorted(gpu["pods"], key=legend.order):
        amount = "whole" if pod["wholeGpu"] else str(pod["memoryMiB"])
        amount += _compute_held(pod)
        parts.append(styled(f"{legend.letter(legend.model(pod))}:{amount}", legend.colour(legend.model(pod))))
    return styled(" ").join(parts)


def _compute_held(pod: Mapping[str, Any]) -> str:
    """A percent, or at most how many times longer than alone a pod with terms takes."""
    sharing = pod["sharing"]
    if sharing is None:
        return "" if pod["computePercent"] is None else f"/{pod['computePercent']}%"
    slowdown = sharing["slowdown"]
    return "/?x" if slowdown is None else f"/{math.ceil(100 * Fraction(slowdown)) / 100:g}x"


def _pods(gpu: Mapping[str, Any]) -> Styled:
    pods = [styled(f"{pod['namespace']}/{pod['name']}") for pod in gpu["pods"]]
    return Styled("\n").join(pods) if pods else styled("idle")


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
            _draw_bar(axes, row, gpu, legend, resource)
        names = [sanitize(f"{gpu['node']} / {gpu['gpu']}  {gpu['product']}") for gpu in gpus if number == 1]
        axes.set_yticks(range(len(names)), names, fontsize=7, parse_math=False)
        axes.invert_yaxis()
        axes.set_xlabel(resource.unit)
        axes.grid(visible=False)
    patches = _patches(gpus, legend)
    drawn = figure.legend(handles=patches, loc="outside upper center", ncols=min(5, len(patches)))
    for text in drawn.get_texts():
        text.set_parse_math(False)
    save(figure, path)


def _draw_bar(axes: Any, row: int, gpu: Mapping[str, Any], legend: Legend, resource: _Resource) -> None:
    """One GPU: what it has, what each pod holds of it, and what is held beyond."""
    whole = resource.of_gpu(gpu)
    hatch, edge = (None, "white") if _takes_pods(gpu) else ("////", _HATCH)
    axes.barh(row, whole, color=_FREE, hatch=hatch, edgecolor=edge, linewidth=0)
    start = 0.0
    for pod in sorted(gpu["pods"], key=legend.order):
        width = resource.of_pod(pod, gpu)
        model = legend.model(pod)
        colour = _DARK if model is None else PLOT_COLOURS[legend.models.index(model) % len(PLOT_COLOURS)]
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
    lambda pod, gpu: float(compute_of(pod, gpu)),
)


def _takes_pods(gpu: Mapping[str, Any]) -> bool:
    return bool(gpu["healthy"] and gpu["open"])


def _patches(gpus: Sequence[Mapping[str, Any]], legend: Legend) -> list[Any]:
    from matplotlib.patches import Patch  # noqa: PLC0415

    named = [model for model in legend.models if model != NO_MODEL]
    patches = [
        Patch(color=PLOT_COLOURS[number % len(PLOT_COLOURS)], label=sanitize(model))
        for number, model in enumerate(named)
    ]
    patches += [Patch(color=_DARK, label="no model")] if NO_MODEL in legend.models else []
    patches.append(Patch(color=_FREE, label="free"))
    if not all(map(_takes_pods, gpus)):
        patches.append(Patch(facecolor=_FREE, edgecolor=_HATCH, hatch="////", linewidth=0, label="takes no pods"))
    if any(gpu["freeMiB"] < 0 or (gpu["freeComputePercent"] or 0) < 0 for gpu in gpus):
        patches.append(Patch(facecolor="none", edgecolor=_OVER, label="more than there is"))
    return patches
