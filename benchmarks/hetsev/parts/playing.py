"""What the parts about sections of the paper share: all controllers over the seeds, in the same worlds."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.hetsev.parts.settings import chosen
from benchmarks.hetsev.results import CONTROLLERS, by_controller
from benchmarks.hetsev.runs import BOUND, Run, World, results_of
from benchmarks.hetsev.scale import Scale
from benchmarks.reporting import Json


def played(scene: str, scale: Scale, courses: Sequence[str], more: Sequence[str] = ()) -> Json:
    """Figures by controller and seed, of `more` and the bound too; courses of the first seed, of these controllers."""
    runs = [
        Run(
            World(scene, seed, end=scale.end),
            name,
            chosen(scene, name, scale),
            course=seed == scale.seeds[0] and name in courses,
        )
        for seed in scale.seeds
        for name in (*CONTROLLERS, *more, BOUND)
    ]
    results = results_of(runs, scale.jobs)
    slowest = max(sum(one.seconds for one in results if one.run.world.seed == seed) for seed in scale.seeds)
    return {
        "figures": by_controller(results),
        "courses": {one.run.controller: one.course for one in results if one.course},
        "seconds": slowest,
        "seeds": len(scale.seeds),
    }
