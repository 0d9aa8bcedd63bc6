"""Problems with slow-downs that a service tolerates instead of the installation's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from hetserve.base.units import Millionths
from hetserve.objects.gpu_sharing import ONE
from hetserve.planning.problem import Problem, TypeOption
from hetserve.profiles.latency import slowed


def with_tolerances(problem: Problem, tolerances: Mapping[str, Millionths]) -> Problem:
    """The problem where types share GPUs on these tolerances, and are slowed and priced so.

    tolerances: by type; others stay as they are. Raises KeyError for a type that has none of its own.
    """
    types = (_at(option, tolerances[option.name]) if option.name in tolerances else option for option in problem.types)
    return replace(problem, types=tuple(types)) if tolerances else problem


def _at(option: TypeOption, tolerance: Millionths) -> TypeOption:
    own = option.own
    if own is None:
        raise KeyError(f"type {option.name} has no tolerance of its own")
    gpu = own.at(tolerance)
    return replace(
        option,
        price=own.cost(tolerance),
        profile=slowed(own.profile, tolerance / ONE),
        max_instances=1 if own.least is not None and own.least <= tolerance else option.max_instances,
        demand=replace(option.demand, gpu_memory=gpu.memory, gpus=gpu.apart),
        gpu=gpu,
    )
