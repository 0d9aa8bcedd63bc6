"""Draws GPUs on a terminal: a bar per GPU, a letter and colour per model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase, ascii_uppercase
from typing import Any, Final

from rich.table import Table

from hetserve.cli.output.terminal import Block, Styled, styled

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


def blocks(document: Mapping[str, Any], *, wide: bool) -> list[Block]:
    """A `gpus` document; `wide` names the pods."""
    totals, gpus, problems = document["totals"], document["gpus"], document["problems"]
    legend = Legend.of(gpus)
    lines = [("memory", _memory(totals)), ("free", _free(totals))]
    lines += [("models", legend.text())] if legend.models else []
    lines += [("problem", problem) for problem in problems[:_FEW_PROBLEMS]]
    if len(problems) > _FEW_PROBLEMS:
        lines.append(("problem", f"and {len(problems) - _FEW_PROBLEMS} more: -o json lists them all"))
    title = ", ".join(
        f"{totals[key]} {what}{'' if totals[key] == 1 else 's'}"
        for key, what in (("gpus", "GPU"), ("nodes", "node"), ("pods", "pod"))
    )
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
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    for heading in ("NODE", "GPU", "PRODUCT"):
        table.add_column(heading, no_wrap=True)
    table.add_column("MEMORY", no_wrap=True)
    table.add_column("FREE MIB", justify="right", no_wrap=True)
    compute = declares_compute(gpus)
    if compute:
        table.add_column("COMPUTE", no_wrap=True)
        table.add_column("FREE %", justify="right", no_wrap=True)
    table.add_column("PODS" if wide else "HELD MIB", overflow="fold")
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


def free_compute(gpu: Mapping[str, Any]) -> str:
    """Percent of compute that is free; - where pods declare none, since nobody knows."""
    percent = gpu["freeComputePercent"]
    return "-" if percent is None else str(percent)


def compute_of(pod: Mapping[str, Any]) -> int:
    """Percent of a GPU's compute that a pod on it holds; 0 if it declares none."""
    return 100 if pod["wholeGpu"] else pod["computePercent"] or 0


def _free_compute(gpu: Mapping[str, Any]) -> Styled:
    percent = gpu["freeComputePercent"]
    return styled(free_compute(gpu), "bold red" if percent is not None and percent < 0 else "")


def _compute_bar(gpu: Mapping[str, Any], legend: Legend) -> Styled:
    """A GPU's compute as characters: letters for what pods declare, dots for what is free, ! for more than there is."""
    text, end = styled(""), 0
    for pod in sorted(gpu["pods"], key=legend.order):
        end += compute_of(pod)
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
        amount += "" if pod["computePercent"] is None else f"/{pod['computePercent']}%"
        parts.append(styled(f"{legend.letter(legend.model(pod))}:{amount}", legend.colour(legend.model(pod))))
    return styled(" ").join(parts)


def _pods(gpu: Mapping[str, Any]) -> Styled:
    pods = [styled(f"{pod['namespace']}/{pod['name']}") for pod in gpu["pods"]]
    return Styled("\n").join(pods) if pods else styled("idle")
