"""Digests of inputs: those of versions before where nothing new is asked, others where it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hetserve.base.units import Millionths
from hetserve.planning import Problem, build_problem
from hetserve.reconcile.plans.case import inputs_digest
from testing.planning import inference_service, instance_type, model_profile

TYPES = [instance_type("a", "1"), instance_type("b", "0.4")]
PROFILES = [model_profile("m", "a"), model_profile("m", "b")]
LOAD = {"expectedQPS": 40, "batchSizes": [{"batch": 1, "weight": 1}]}


def declared(**spec: Any) -> Problem:
    found = build_problem(inference_service(**spec), TYPES, PROFILES)
    assert isinstance(found, Problem)
    return found


MOST = declared()
LEAST = declared(objective="MinCost", budget=None, load=LOAD)
SHARING = replace(LEAST, unshared=LEAST.types, max_slowdown=Millionths(1_250_000))


@pytest.mark.parametrize(
    ("problem", "digest"),
    [(MOST, "3c3ae4016cc63984"), (LEAST, "fe0c63528b06fd51"), (SHARING, "3c80824e37e1b73a")],
    ids=["most", "least", "sharing"],
)
def test_a_service_without_bounds_on_its_total_keeps_its_digest(problem: Problem, digest: str) -> None:
    """Recorded plans of these inputs are followed after an upgrade; another digest would plan them all anew."""
    assert inputs_digest(problem) == digest


def test_bounds_on_the_total_are_inputs() -> None:
    bounds: list[dict[str, Any]] = [
        {},
        {"least_total": 1},
        {"most_total": 1},
        {"least_total": 1, "most_total": 1},
        {"most_total": 2},
    ]
    digests = {inputs_digest(replace(problem, **some)) for problem in (LEAST, SHARING) for some in bounds}
    assert len(digests) == 2 * len(bounds)
