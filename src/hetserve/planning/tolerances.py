"""Problems with slow-downs that a service tolerates instead of the installation's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetserve.base.units import Millionths
from hetserve.planning.problem import Problem, TypeOption
from hetserve.profiles.latency import slowed
from hetserve.profiles.sharing import ONE


def with_tolerances(problem: Problem, tolerances: Mapping[str, Millionths]) -> Problem:
    """The problem where types share GPUs on these tolerances, and are slowed and priced so.

    tolerances: by type; others stay as they are. Raises KeyError for a type that has none of its own.
    """
    if not tolerances:
        return problem
    alone = {option.name: option for option in problem.unshared}
    types = tuple(
        at_tolerance(o, alone[o.name], tolerances[o.name]) if o.name in tolerances else o for o in problem.types
    )
    return replace(problem, types=types)


def at_tolerance(option: TypeOption, alone: TypeOption, tolerance: Millionths) -> TypeOption:
    """The type as its instances share GPUs on a tolerance. alone: with a GPU for each instance."""
    own = option.own
    if own is None or own.gpu.terms is None:
        raise KeyError(f"type {option.name} has no tolerance of its own")
    terms = replace(own.gpu.terms, tolerance=tolerance)
    gpu = replace(own.gpu, terms=terms)
    return replace(
        option,
        price=own.price.instance(gpu.memory, gpu.compute, terms),
        profile=slowed(alone.profile, tolerance / ONE),
        demand=replace(option.demand, gpu_memory=gpu.memory, gpu_compute=gpu.compute),
        gpu=gpu,
    )
