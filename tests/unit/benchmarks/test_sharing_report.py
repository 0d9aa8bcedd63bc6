"""The arithmetic of the report on shared GPUs: models, bookings, ways to share out, which goals hold."""

from __future__ import annotations

import math
from typing import Any

from benchmarks.sharing import draws, tenants, ways
from benchmarks.sharing.parts import demo, price, rule, sets, traps

from hetserve.api.manifests import read_manifests
from hetserve.profiles.sharing import ONE, compute_share


def line_of(page: str, start: str) -> str:
    return next(line for line in page.splitlines() if line.startswith(f"| {start}"))


def test_the_rule_is_missed_by_one_gpu_above_sigma() -> None:
    row = {"tenants": 2, "percent": 100, "busy": 1.25, "loads": 1.2}
    page = rule.describe({"sigma": 1.25, "rows": [row, {**row, "loads": 1.26}]})
    assert line_of(page, "greatest stretch, always busy").endswith("| 1.2500 | held |")
    assert line_of(page, "greatest stretch, at random loads").endswith("| 1.2600 | **missed** |")


def test_the_price_is_the_ratio_of_gpus() -> None:
    row = {"band": [0.1, 0.2], "rule": 3, "play": 2, "holds": True, "used": 1.2}
    page = price.describe({"rows": [row, {**row, "play": 1, "holds": False}]})
    assert line_of(page, "0.1 to 0.2") == "| 0.1 to 0.2 | 2 | 6 | 3 | 2.00 | 40% | 80% |"
    assert line_of(page, "sets that hold").endswith("| 1 of 2 | **missed** |")


def test_a_trap_holds_only_if_the_right_queues_diverge() -> None:
    def case(*grows: bool) -> dict[str, object]:
        return {"used": 0.95, "grows": list(grows), "latency": [6.0] * len(grows), "most": 1.5}

    page = traps.describe({"two": case(True, False), "six": case(*[True] * 6), "four": case(*[False] * 4)})
    assert line_of(page, "u 1 and .5").endswith("**missed** |")
    assert line_of(page, "six").endswith("| loads x u 0.95; 6 of 6 diverge; stretch up to 1.50 | held |")
    assert line_of(page, "four").endswith("p98 6.0 | held |")


def test_a_demo_whose_plan_does_not_fit_or_is_not_made_does_not_hold() -> None:
    refused = {"service": "one", "refused": "CapacityTooLow"}
    page = demo.describe({"before": [refused], "now": [refused], "roomy": [], "speeds": {}, "harm": {}})
    assert line_of(page, "now, services").endswith("| 0 of 0 break; late up to 0.00%; 1 not planned | **missed** |")


def sample() -> Any:
    return read_manifests([str(demo.SAMPLE)])


def test_the_sample_states_the_shares_and_factors_of_the_four_models() -> None:
    for profile in sample().profiles:
        found, model = compute_share(profile.spec), profile.spec.model
        assert found is not None
        assert found.share / ONE == tenants.SHARES[model]
        assert {e.model for e in found.interference} == set(tenants.MODELS) - {model}, "one of a model is on a GPU"
        for entry in found.interference:
            assert entry.batch == tenants.LARGEST[entry.model]
            exact = 1 + tenants.harm(model, entry.model) * math.sqrt(tenants.LARGEST[model] * entry.batch) / 8
            assert exact <= entry.factor / ONE + 1e-9 < exact + 1e-4 + 1e-9


def test_room_is_what_placement_leaves() -> None:
    given = draws.drawn_set(0)
    room, service = ways.Room(given.nodes), given.manifests.services[0]
    wanted = ways.NOW.planned(service, given.manifests, room).instances[0]
    left = room.left(wanted)
    assert left == given.gpus[wanted.type]
    assert room.take(wanted).place.startswith(wanted.type)
    assert room.left(wanted) == left - 1, "a GPU holds a model once"


def test_goals_of_sets_are_missed_by_one() -> None:
    def played(*, holds: bool) -> dict[str, object]:
        return {"name": "m0", "holds": holds, "most": 1.25, "mean": 1.1}

    fine = {"instances": 8, "in_use": 4, "played": [played(holds=True)] * 10}
    bad = {**fine, "played": [played(holds=True)] * 9 + [played(holds=False)]}
    refused = {"refused": "m1", "reason": "CapacityTooLow"}
    page = sets.describe(
        {"sigma": 1.25, "rows": [{"now": fine, "before": bad}] * 3 + [{"now": refused, "before": bad}] * 2}
    )
    assert line_of(page, "sets that are feasible").endswith("| 3 of 5 | held |")
    assert line_of(page, "of these, services").endswith("| 30 of 30 (100.0%) | held |")
    assert line_of(page, "before, of the").endswith("| 45 of 50 (90.0%) |  |")
    assert line_of(page, "by compute and sigma") == "| by compute and sigma | 3 of 5 | 30 | 30 | 3 | 2.00 |"
    assert line_of(page, "greatest stretch").endswith("| 1.2500 | held |")
    page = sets.describe({"sigma": 1.25, "rows": [{"now": bad, "before": bad}, {"now": refused, "before": bad}]})
    assert page.count("**missed**") == 2
