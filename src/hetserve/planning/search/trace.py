"""Result of a search: what it tried, in order."""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.planning.plan import Counts


@dataclass(frozen=True, slots=True)
class Evaluation:
    counts: Counts
    qps: float

    def as_json(self) -> dict[str, object]:
        return {"counts": dict(self.counts), "qps": self.qps}


@dataclass(frozen=True, slots=True)
class SearchTrace:
    """Evaluations of one search, each configuration once.

    space: number of configurations. pruned: known to be no better.
    """

    method: str
    seed: int
    evaluations: tuple[Evaluation, ...]
    space: int
    pruned: int

    @property
    def best(self) -> Evaluation:
        """The highest queries/s; ties go to the first."""
        return max(self.evaluations, key=lambda e: e.qps)

    def best_so_far(self) -> tuple[float, ...]:
        out: list[float] = []
        for evaluation in self.evaluations:
            out.append(max(evaluation.qps, out[-1] if out else evaluation.qps))
        return tuple(out)

    def evaluations_until(self, qps: float) -> int | None:
        """Evaluations until one held at least this rate; None: none did."""
        return next((i for i, e in enumerate(self.evaluations, start=1) if e.qps >= qps), None)

    def as_json(self) -> dict[str, object]:
        return {
            "method": self.method,
            "seed": self.seed,
            "space": self.space,
            "pruned": self.pruned,
            "best": self.best.as_json(),
            "evaluations": [evaluation.as_json() for evaluation in self.evaluations],
        }
