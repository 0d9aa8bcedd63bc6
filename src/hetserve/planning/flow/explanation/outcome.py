"""What became of the counts that ran beside the chosen ones."""

from __future__ import annotations

from dataclasses import dataclass

from hetserve.planning.flow.programs.classes import Values
from hetserve.planning.flow.search.cost import Climb
from hetserve.planning.flow.search.proof import Proof
from hetserve.planning.flow.search.throughput import Race


@dataclass(frozen=True, slots=True)
class Tried:
    """held: queries/s seen to keep the SLO; 0: none was. below: a rate that broke it; None: not looked for."""

    values: Values
    held: float
    below: float | None = None


def of_race(run: Race) -> tuple[Tried, ...]:
    """The others that ran, what was seen to hold most first, then those that lost by their fluid rate."""
    fluid = run.judge.fluid
    seen = {values: rate for values, rate in run.entered.items() if values != run.best}
    ranked = sorted(seen, key=lambda v: (-seen[v], -fluid(v), v))
    return tuple(Tried(v, seen[v], None if seen[v] else run.rate) for v in ranked)


def of_climb(run: Climb, proof: Proof, best: Values, load: float) -> tuple[Tried, ...]:
    """The others that ran, cheapest first: those below the best broke the SLO, in the trials that chose or proved."""
    key, others = run.key(best), []
    for values in run.simulated:
        below = run.key(values) < key
        if values == best:
            continue
        if run.tried[values] and not below:
            others.append(Tried(values, run.load))
        else:
            others.append(Tried(values, 0.0, load if proof.broke(values, load) else run.load))
    return tuple(sorted(others, key=lambda one: run.key(one.values)))
