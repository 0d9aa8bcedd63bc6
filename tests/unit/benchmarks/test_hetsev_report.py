"""The report of HetSev's sections names what there is, reads ratios as it says, and chooses the best settings."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.hetsev.controllers import CONTROLLERS
from benchmarks.hetsev.intervals import estimate, ratio
from benchmarks.hetsev.parts import ablation, cost, production, sensitivity, settings
from benchmarks.hetsev.results import CONTROLLERS as COMPARED
from benchmarks.hetsev.results import by_controller, comparison
from benchmarks.hetsev.rivals.kinds import RIVALS, VARIANTS
from benchmarks.hetsev.runs import BOUND, Result, Run, World, controller_of, result_of
from benchmarks.hetsev.scale import quick, whole
from benchmarks.reporting import Json

SHORT = World("cost", 0, end=120.0)


def course(*throughput: float) -> Json:
    """Equal averages over 120 s each; as many queries answered on each of two models."""
    each = [value for value in throughput for _ in range(8)]
    return {
        "answered": {"a": each, "b": each},
        "gpu_use": [value / 10 for value in each],
        "response": [None if k == 0 else 1 / value for k, value in enumerate(each)],
    }


def test_an_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0])

    assert found.mean == 2.0
    assert found.half == pytest.approx(4.302653 / math.sqrt(3))  # scale 1, 2 degrees of freedom
    assert found.text(".1f", " x") == "2.0 x ± 2.5 x"
    assert estimate([1.5]).text() == "1.50"


def test_ratios_are_of_the_same_seeds() -> None:
    assert ratio([1.0, 6.0], [1.0, 2.0]).mean == 2.0


def test_up_to_is_the_greatest_ratio_of_two_minutes() -> None:
    assert production.up_to(course(1.0, 4.0), course(1.5, 10.0)) == pytest.approx([2.5, 2.5, 2.5])


def test_every_controller_that_a_part_names_exists() -> None:
    named = {*ablation._TAKEN, *ablation._ADDED, *sensitivity._PLAYED, *COMPARED, *production.SHOWN}
    known = {*RIVALS, *VARIANTS, *CONTROLLERS}

    assert named <= known
    with pytest.raises(ValueError, match="controller kairos: must be one of clairvoyant, hetserve, "):
        controller_of("kairos", None, SHORT.made())


def test_worlds_differ_in_what_carries_the_rates_alone() -> None:
    slower = replace(SHORT, t4=0.8, interference=1.2).made()

    assert slower.workload == SHORT.made().workload
    assert slower.assumed.rate("resnet50", "t4") == pytest.approx(0.8 / 0.034)
    assert slower.assumed.coefficient("resnet50", "resnet50") == pytest.approx(0.24)


def test_the_best_setting_is_the_cheapest_that_keeps_the_slo_and_else_the_least_late() -> None:
    def tried(*late_and_hours: tuple[float, float]) -> list[Result]:
        return [
            Result(Run(SHORT, "hetsev", setting), {"late": late, "all_gpu_hours": hours})
            for setting, (late, hours) in zip(RIVALS["hetsev"].settings, late_and_hours, strict=True)
        ]

    keeping = settings._best("hetsev", tried((0.5, 1.0), (0.01, 4.0), (0.02, 3.0), (0.0, 9.0), (0.3, 1.0), (0.9, 0.1)))
    late = settings._best("hetsev", tried((0.5, 1.0), (0.2, 4.0), (0.2, 3.0), (0.4, 9.0), (0.3, 1.0), (0.9, 0.1)))

    assert (keeping["hours"], late["hours"]) == (3.0, 3.0)
    assert keeping["setting"]["patience"] == RIVALS["hetsev"].settings[2].patience


def test_a_table_has_each_controller_and_the_bound() -> None:
    names = ("kubernetes", "hetsev", BOUND)
    figures = by_controller(result_of(Run(replace(SHORT, seed=seed), name)) for seed in (0, 1) for name in names)
    rows = comparison(figures).splitlines()[2:]

    assert [row.split(" | ")[0] for row in rows] == [f"| `{name}`" for name in names]
    assert rows[-1].count(">=") == 3
    for seed in (0, 1):
        base = figures["kubernetes"][seed]
        assert base["paper_by_model"] == base["whole"]
        assert figures["hetsev"][seed]["paper_by_model"] == figures["hetsev"][seed]["held"]
    assert cost._mean_over_models(figures, "kubernetes", "whole").mean == 1.0


def test_nothing_is_reported_with_settings_that_no_sweep_chose(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("benchmarks.reporting.RESULTS", tmp_path)

    assert settings.chosen("waves", "kubernetes", quick(1)) is None
    assert settings.chosen("waves", "hetserve", whole(1, 2)) is None
    with pytest.raises(ValueError, match="waves: no settings of kubernetes are kept; measure them first: make"):
        settings.chosen("waves", "kubernetes", whole(1, 2))
