"""The arithmetic of the report on planner flow: ratios, what counts as late, which goals hold."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.flow.parts import least, most


def pool(
    name: str, best: float, says: float | None = None, *, exhaustive: bool = False, **held: float
) -> dict[str, Any]:
    plans = {one: {"feasible": True, "counts": [1], "says": says} for one in held}
    return {
        "name": name,
        "types": 3,
        "percentile": 99.0,
        "most": {
            "plans": plans,
            "held": held,
            "best": {"qps": best, "counts": [1]},
            "exhaustive": exhaustive,
            "ceiling": best * 1.1,
        },
        "policies": {"own": {"kairos": 50.0, "hetserve": 40.0}} if best else {},
        "least": [],
    }


def case(load: float = 10.0, best: int | None = 100, **plans: tuple[int, float, bool]) -> dict[str, Any]:
    """plans: cost, late share, steady."""
    return {
        "share": 0.3,
        "load": load,
        "plans": {
            name: {"feasible": cost > 0, "cost": cost, "reason": "LoadNotCarried"}
            for name, (cost, _, _) in plans.items()
        },
        "tried": {
            name: {"late": late, "steady": steady, "holds": steady and late <= 0.01}
            for name, (cost, late, steady) in plans.items()
            if cost > 0
        },
        "best": None if best is None else {"cost": best, "method": "program"},
    }


def rows_of(*cases: dict[str, Any]) -> list[dict[str, Any]]:
    return least.collect([{"name": f"p{i}", "percentile": 99.0, "least": [one]} for i, one in enumerate(cases)])["rows"]  # type: ignore[no-any-return]


def line_of(page: str, start: str) -> str:
    return next(row for row in page.splitlines() if row.startswith(f"| {start}"))


def test_most_throughput_compares_with_the_best_known_and_names_who_is_ahead() -> None:
    records = [
        pool("a", 100.0, 99.0, flow=100.0, kairos=50.0),
        pool("b", 100.0, 99.0, exhaustive=True, flow=95.0, kairos=99.0),
        pool("c", 0.0, None, flow=0.0),
    ]
    page = most.describe(most.collect(records))
    assert line_of(page, "`flow`").startswith("| `flow` | 0.975 | 0.975 | 0.950 | 0 of 2 | 0.950 | 0.950 | 0.950 |")
    assert line_of(page, "`kairos`").startswith("| `kairos` | 0.745 | 0.745 | 0.500 | 1 of 2 |")
    assert line_of(page, "held over the best known, mean").endswith("| >= 0.98 | 0.975 | **missed** |")
    assert line_of(page, "held over the best known, worst").endswith("| 0.950 | held |")
    assert line_of(page, "another planner's").endswith("| 1.042 (b) | **missed** |")
    assert line_of(page, "`kairos` under its own policy").endswith("| above 1 on 2 pools, at most 1.250 |  |")
    assert "1 pools on which nothing holds" in page


def test_a_backlog_that_grows_is_late_for_ever() -> None:
    rows = rows_of(case(flow=(60, 0.002, False), ilp=(100, 0.0, True)))
    assert least.worst_late(rows, "flow") == math.inf
    page = least.describe({"rows": rows})
    assert line_of(page, "pools on which every plan").endswith("| 0.0% | **missed** |")
    assert line_of(page, "late queries over those allowed").endswith("| inf | **missed** |")


def test_least_cost_says_which_goals_hold_and_what_no_planner_found() -> None:
    rows = rows_of(
        case(flow=(70, 0.0101, True), ilp=(100, 0.005, True), greedy=(120, 0.0, True)),
        *(case(flow=(66, 0.004, True), ilp=(100, 0.005, True), greedy=(110, 0.0, True), best=60) for _ in range(3)),
        case(flow=(0, 0.0, True), ilp=(0, 0.0, True), greedy=(0, 0.0, True)),
    )
    page = least.describe({"rows": rows})
    assert line_of(page, "`flow`").startswith(
        "| `flow` | 4 | 3 | 1.01 | 0.660, 0.660, 0.700 (4) | 1.100, 1.100, 1.100 | 1 |"
    )
    assert line_of(page, "`greedy`").startswith("| `greedy` | 4 | 4 | 0.00 | 1.100, 1.100, 1.200 (4) |")
    assert line_of(page, "cost over `ilp`'s where that holds, median").endswith("| 0.660 | held |")
    assert line_of(page, "cost over the least found, median").endswith("| <= 1.08 | 1.100 | **missed** |")
    assert line_of(page, "pools on which every plan").endswith("| 75.0% | **missed** |")
    assert "program 5" in page
    assert "no plan though one was found: p4 at 10 q/s (LoadNotCarried)." in page
