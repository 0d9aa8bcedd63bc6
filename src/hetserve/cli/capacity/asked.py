"""What a service asks for, and how its types have their GPUs, as answers say it; keys are part of the interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetserve.base.units import Millionths, format_money, format_ratio
from hetserve.planning.formatting import latency_text, money_text
from hetserve.planning.plan import RankedConfiguration, SharingComparison
from hetserve.planning.problem import Problem, TypeOption
from hetserve.planning.tenancy import Tenancy

if TYPE_CHECKING:
    from hetserve.cli.capacity.effort import SimulationEffort


def slo_text(problem: Problem, *, budget: bool = False) -> str:
    """``99 % within 350 ms``; budget: and at which cost at most, if it has one."""
    slo, most = problem.slo, problem.budget
    text = f"{slo.percentile:.10g} % within {latency_text(slo.latency)}"
    return f"{text}, at most {money_text(most)}" if budget and most is not None else text


def asked_document(problem: Problem, effort: SimulationEffort) -> dict[str, Any]:
    return {
        "sloSeconds": problem.slo.latency,
        "percentile": problem.slo.percentile,
        "budget": None if problem.budget is None else format_money(problem.budget),
        "queries": effort.queries,
        "seed": effort.seeds[0],
        "seeds": list(effort.seeds),
        **tenancy_document(problem),
    }


def tenancy_document(problem: Problem) -> dict[str, Any]:
    """maxSlowdown: the greatest of all types; null where none shares a GPU.

    types: on GPUs; gpuCompute in percent, 0: none is declared; slowdown: null of a type that does not share.
    """
    return {
        "maxSlowdown": _ratio(max(_slowdowns(problem), default=None)),
        "types": {
            option.name: {
                "tenancy": option.gpu.tenancy.value,
                "gpuMemoryMiB": option.gpu.memory,
                "gpuCompute": option.gpu.compute,
                "slowdown": _ratio(option.gpu.slowdown),
                **({"why": option.gpu.why} if option.gpu.why else {}),
            }
            for option in problem.types
            if option.gpu is not None
        },
    }


def sharing_document(found: SharingComparison | None) -> dict[str, Any] | None:
    """`sharing` of a plan: what it takes with each GPU for one instance, and shared; null: no such plan."""
    if found is None:
        return None
    return {"planner": found.planner, "exclusive": _side(found.exclusive), "shared": _side(found.shared)}


def _side(one: RankedConfiguration | None) -> dict[str, Any] | None:
    if one is None:
        return None
    return {"counts": dict(one.counts), "cost": format_money(one.cost), "qps": round(one.qps, 6)}


def tenancy_lines(problem: Problem) -> list[tuple[str, str]]:
    """Label and text for a table: bookings, and what the service times allow for; none where GPUs are not shared."""
    told = [_text(option) for option in problem.types]
    if all(option.gpu is None or option.gpu.tenancy is Tenancy.WHOLE for option in problem.types):
        return []
    return [("gpus", "; ".join(text for text in told if text))]


def _slowdowns(problem: Problem) -> list[Millionths]:
    return [option.slowdown for option in problem.types if option.slowdown is not None]


def _text(option: TypeOption) -> str:
    gpu = option.gpu
    if gpu is None:
        return ""
    if gpu.tenancy is Tenancy.SHARED:
        booked = "" if gpu.terms is not None else f" and {gpu.compute} %"
        return f"{option.name}: shared, {gpu.memory} MiB{booked} of one, service times x {_ratio(gpu.slowdown)}"
    if gpu.tenancy is Tenancy.UNDECLARED:
        return f"{option.name}: shared without a booking, {gpu.memory} MiB of one"
    return f"{option.name}: one for each instance"


def _ratio(value: Millionths | None) -> str | None:
    return None if value is None else format_ratio(value)
