"""`hetserve plan --frontier`: keys, table and picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from plan_command import HETSEV, RM2, answer, run

SMALL = (RM2, "--budget", "0.7", "--frontier")


@pytest.fixture(scope="module")
def picture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frontier") / "a.svg"


@pytest.fixture(scope="module")
def document(picture: Path) -> Iterator[dict[str, object]]:
    """As JSON, with its picture drawn beside it."""
    from matplotlib import rc_context

    with rc_context({"svg.fonttype": "none"}):  # texts as texts, not as outlines
        yield answer(*SMALL, "--plot", str(picture))


@pytest.mark.deep
def test_the_points_say_what_each_planner_holds_for_a_budget(document: dict[str, object]) -> None:
    points = document["frontier"]
    assert isinstance(points, list)
    assert set(points[0]) == {"budget", "ceilingQPS", "planners"}
    assert set(points[0]["planners"]) == {"flow", "ilp", "kairos", "homogeneous"}
    assert set(points[-1]["planners"]["flow"]) == {"counts", "cost", "boundQPS", "simulatedQPS"}
    assert points[-1]["budget"] == "1.400"
    held = [point["planners"]["flow"]["simulatedQPS"] for point in points]
    assert held == sorted(held)
    assert held[-1] > points[-1]["planners"]["ilp"]["simulatedQPS"], (
        "one g4dn.xlarge and small types hold more than two"
    )


def test_a_plan_has_no_frontier_unless_asked() -> None:
    assert "frontier" not in answer(RM2, "--budget", "0.7")
    refused = run(HETSEV, "--service", "transformer", "--budget", "0.5", "--frontier")
    assert (refused.exit_code, refused.stdout) == (3, "")


@pytest.mark.deep
def test_the_table_has_a_column_of_each_planner() -> None:
    shown = run(*SMALL)
    assert "AT MOST $/H  CEILING Q/S  FLOW Q/S" in shown.stdout
    assert "HETSEV'S ILP Q/S" in shown.stdout
    assert shown.stderr == ""


@pytest.mark.deep
def test_the_picture_names_all_that_is_drawn(document: dict[str, object], picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    for word in ("no mix holds more", "HetSev's ILP", "Kairos's pick", "one type", "budget: 0.7 $/h", "the plan: "):
        assert word in text
    assert str(document["service"]) in text
