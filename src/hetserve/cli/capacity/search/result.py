"""The answer of `hetserve search`; keys are part of the interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rich.table import Table

from hetserve.base.units import format_money
from hetserve.cli.capacity import tenancy
from hetserve.cli.capacity.effort import Effort, asked
from hetserve.cli.output.terminal import Block, text_of
from hetserve.planning import Counts, Problem, summary
from hetserve.planning.formatting import latency_text, money_text, qps_text, share_text

_SHOWN = 15


@dataclass(frozen=True, slots=True)
class MethodTrace:
    """Configurations that a method evaluated, each once, in order, with queries/s. space: number of configurations."""

    method: str
    tried: tuple[tuple[Counts, float], ...]
    space: int

    @property
    def best(self) -> int:
        return max(range(len(self.tried)), key=lambda i: (self.tried[i][1], -i))

    @property
    def best_so_far(self) -> list[float]:
        return list(accumulate((rate for _, rate in self.tried), max))


@dataclass(frozen=True, slots=True)
class Searched:
    service: str
    model: str
    problem: Problem
    policy: str
    effort: Effort
    seed: int
    traces: tuple[MethodTrace, ...]

    @property
    def best_rate(self) -> float:
        return max(trace.tried[trace.best][1] for trace in self.traces)

    def cost(self, counts: Counts) -> int:
        held = dict(counts)
        return sum(option.price * held[option.name] for option in self.problem.types)


def document(result: Searched) -> dict[str, Any]:
    return {
        "service": result.service,
        "model": result.model,
        "policy": result.policy,
        **asked(result.problem, result.effort),
        "searchSeed": result.seed,
        "results": [
            {
                "method": trace.method,
                "space": trace.space,
                "evaluations": len(trace.tried),
                "evaluationsUntilBest": trace.best + 1,
                "best": _tried(result, *trace.tried[trace.best]),
                "trace": [_tried(result, *one) for one in trace.tried],
            }
            for trace in result.traces
        ],
    }


def _tried(result: Searched, counts: Counts, rate: float) -> dict[str, Any]:
    return {"counts": dict(counts), "cost": format_money(result.cost(counts)), "allowableQPS": rate}


def table(results: Sequence[Searched]) -> str:
    return text_of([_block(result) for result in results])


def _block(result: Searched) -> Block:
    slo, budget = result.problem.slo, result.problem.budget or 0
    asked = f"{slo.percentile:.10g} % within {latency_text(slo.latency)}, at most {money_text(budget)}"
    lines = [
        ("asked", f"{asked}, policy {result.policy}"),
        *tenancy.lines(result.problem),
        ("simulated", f"{result.effort.text}; search seed {result.seed}"),
    ]
    lines += [("found", _found(result, trace)) for trace in result.traces]
    return Block(f"{result.service}: search", tuple(lines), tuple(_tries(result, trace) for trace in result.traces))


def _found(result: Searched, trace: MethodTrace) -> str:
    counts, rate = trace.tried[trace.best]
    return (
        f"{trace.method}: {summary(counts)} for {money_text(result.cost(counts))} holds {qps_text(rate)}; evaluation "
        f"{trace.best + 1} of {len(trace.tried)}, {share_text(len(trace.tried) / trace.space)} of {trace.space} "
        "configurations"
    )


def _tries(result: Searched, trace: MethodTrace) -> Table:
    more = len(trace.tried) - _SHOWN
    grid = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, title_justify="left", title=trace.method)
    grid.caption = f"{more} more in -o json" if more > 0 else None
    grid.add_column("EVALUATION", justify="right")
    grid.add_column("CONFIGURATION", overflow="fold")
    for column in ("$/H", "ALLOWABLE Q/S", "BEST SO FAR Q/S"):
        grid.add_column(column, justify="right")
    rows = list(zip(trace.tried, trace.best_so_far, strict=True))[:_SHOWN]
    for number, ((counts, rate), best) in enumerate(rows, start=1):
        style = "bold" if number == trace.best + 1 else None
        cost = format_money(result.cost(counts))
        grid.add_row(str(number), summary(counts), cost, f"{rate:.4g}", f"{best:.4g}", style=style)
    return grid
