"""The arithmetic of the report on shared GPUs: models, terms, ways to share out, which goals hold."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from benchmarks.hetsev.assumptions import given
from benchmarks.sharing import draws, found, four, needed, served, small, tenants, terms, ways
from benchmarks.sharing.compared import PLACED
from benchmarks.sharing.parts import demo, h200, rule, savings, sets, traps
from benchmarks.sharing.parts import small as small_part

from hetserve.api.manifests import Manifests, read_manifests
from hetserve.cli.capacity.together.play import PlannedService
from hetserve.objects.gpu_sharing import ONE, slowdowns, tolerate
from hetserve.placement.pods.requests import PolicyName
from hetserve.profiles.sharing import compute_share

WORST, BEST = PolicyName("WorstFit"), PolicyName("BestFit")


def line_of(page: str, start: str) -> str:
    return next(line for line in page.splitlines() if line.startswith(f"| {start}"))


def test_the_rule_is_missed_by_one_gpu_above_a_tolerance() -> None:
    row = {"tenants": 2, "busy": 1.0, "loads": 0.9}
    page = rule.describe({"rows": [row, {**row, "loads": 1.01}]})
    assert line_of(page, "greatest stretch over tolerance, always busy").endswith("| 1.0000 | held |")
    assert line_of(page, "greatest stretch over tolerance, at random loads").endswith("| 1.0100 | **missed** |")


def test_drawn_gpus_are_full_and_simulated_as_the_rule_counts() -> None:
    for seed in range(20):
        on_gpu = terms.full_gpu(Random(seed))  # noqa: S311
        assert len(on_gpu) > 1
        assert tolerate(on_gpu)
        met = tenants.stretches(terms.as_tenants(on_gpu))
        assert met == pytest.approx([slow / ONE for slow in slowdowns(on_gpu)])


def test_a_trap_holds_only_if_the_right_queues_diverge() -> None:
    def case(*grows: bool) -> dict[str, object]:
        return {"used": 0.95, "grows": list(grows), "latency": [6.0] * len(grows), "most": 1.5}

    page = traps.describe({"two": case(True, False), "six": case(*[True] * 6), "four": case(*[False] * 4)})
    assert line_of(page, "u 1 and .5").endswith("**missed** |")
    assert line_of(page, "six").endswith("| loads x u 0.95; 6 of 6 diverge; stretch up to 1.50 | held |")
    assert line_of(page, "four").endswith("p98 6.0 | held |")


def compared(*, exclusive: int, needs: int, fewest: int, breaks: int = 0) -> dict[str, Any]:
    played = {"late": [0.0, 0.01], "breaks": breaks, "stretch": 1.5, "in use": needs, "most on one": 3}
    return {
        "exclusive": exclusive,
        "counts": [{"t4": 2}, {"t4": 5}, {"t4": 2}, {"t4": 4}],
        "needs": {policy: [needs, needs + 1, needs + 2] for policy in PLACED},
        "grown": dict.fromkeys(PLACED, needs),
        "played": dict.fromkeys(PLACED, played),
        "fewest": fewest,
    }


def test_a_demo_whose_plan_does_not_fit_or_is_not_made_does_not_hold() -> None:
    refused = {"service": "one", "refused": "CapacityTooLow"}
    gpus = {"T4s only": compared(exclusive=33, needs=22, fewest=17)}
    page = demo.describe({"before": [refused], "now": [refused], "speeds": {}, "harm": {}, "gpus": gpus})
    assert line_of(page, "now, services").endswith("| 0 of 0 break; late up to 0.00%; 1 not planned | **missed** |")
    assert line_of(page, "T4s only").startswith("| T4s only | 33 | 22: 1.50 x |")


def test_gpus_saved_are_those_of_all_cases_of_a_type() -> None:
    rows = [
        {
            "kind": kind,
            "row": "fixed",
            "cases": [compared(exclusive=8, needs=n, fewest=3), compared(exclusive=5, needs=3, fewest=3)],
        }
        for kind, n in (("v100", 4), ("t4", 6))
    ]
    page = savings.describe({"rows": rows})
    assert line_of(page, "v100 | fixed").startswith("| v100 | fixed loads | 13 | 7 (10.0): 1.86 x |")
    assert line_of(page, "v100, all").endswith("| held |")
    assert line_of(page, "t4, all").endswith("| **missed** |")
    assert line_of(page, "no policy can need less").endswith("| 20 |  |  |  |"), "four times 5, the largest service"


def test_goals_of_small_services_are_of_the_mean_set() -> None:
    row = {"slices": "ideal", "slo": 10}
    page = small_part.describe({"rows": [row | compared(exclusive=20, needs=n, fewest=5) for n in (9, 12)]})
    assert line_of(page, "20 services, ideal slices, SLO 10 x").endswith("| 10.5; 10.5 | **missed** |")


def test_goals_of_sets_on_a_real_gpu_count_those_let_in() -> None:
    by_slo = {"10": {"holds": 40, "let in": 30, "breaks": 1, "late": 0.03}}
    page = h200.describe({"rows": [{"mode": mode, "load": 0.1, "sets": 72, "by slo": by_slo} for mode in h200.MODES]})
    assert line_of(page, "TimeSlicing: sets let in").endswith("| 30 of 40 | held |")
    assert line_of(page, "MPS: sets let in").endswith("| 30 of 40 | **missed** |")
    assert line_of(page, "MPS: of the sets").endswith("| 1; late up to 3.00% | **missed** |")


def sample() -> Any:
    return read_manifests([str(demo.SAMPLE)])


def test_the_sample_states_the_shares_and_factors_of_the_four_models() -> None:
    for profile in sample().profiles:
        share, model = compute_share(profile.spec), profile.spec.model
        assert share is not None
        assert share.share / ONE == tenants.SHARES[model]
        assert {e.model for e in share.interference} == set(tenants.MODELS) - {model}, "one of a model is on a GPU"
        for entry in share.interference:
            assert entry.batch == tenants.LARGEST[entry.model]
            exact = 1 + tenants.harm(model, entry.model) * math.sqrt(tenants.LARGEST[model] * entry.batch) / 8
            assert exact <= entry.factor / ONE + 1e-9 < exact + 1e-4 + 1e-9


def test_a_course_out_of_step_has_the_loads_of_the_one_in_step() -> None:
    in_step, out_of_step = (list(four.cases(row)) for row in ("in step", "out of step"))
    assert {len(set(loads)) for loads, _ in in_step} == {1}
    for k in range(4):
        assert sorted(loads[k] for loads, _ in in_step) == sorted(loads[k] for loads, _ in out_of_step)
    assert all(follows for _, follows in (*in_step, *out_of_step))


@pytest.mark.parametrize("kind", four.KINDS)
def test_the_four_are_the_assumed_ones(kind: str) -> None:
    made = four.four(kind, (0.3, 0.6, 0.9, 1.2), follows=True)
    rates = [float(one.spec.load.expected_qps or 0) for one in made.services if one.spec.load]
    models = given().models.values()
    assert rates == pytest.approx(
        [load / 0.8 / one.latency[kind] for load, one in zip((0.3, 0.6, 0.9, 1.2), models, strict=True)]
    )


@pytest.fixture(scope="module")
def twins() -> tuple[Manifests, list[PlannedService]]:
    """Four services of HetSev's with three instances each, three of which fit on a GPU."""
    made = four.four("v100", (1.2,) * 4, follows=False)
    return made, [ways.NOW.planned(one, made) for one in made.services]


def test_worst_fit_needs_fewer_gpus_where_best_fit_fills_them_with_the_first_services(
    twins: tuple[Manifests, list[PlannedService]],
) -> None:
    made, planned = twins
    types = {one.metadata.name: one for one in made.types}
    wanted = [instance for one in planned for instance in one.instances]
    assert [sum(one.counts.values()) for one in planned] == [3, 3, 3, 3]
    assert needed.smallest(wanted, types, WORST) == {"v100": 4}
    assert needed.smallest(wanted, types, BEST) == {"v100": 6}
    assert needed.placed(wanted, types, {"v100": 3}, WORST) is None
    assert needed.grown(wanted, types, WORST) == needed.grown(wanted, types, BEST) == 6
    places = needed.placed(wanted, types, {"v100": 4}, WORST)
    assert places is not None
    assert (needed.in_use(places), needed.most_on_one(places)) == (4, 3)


def test_fewer_gpus_are_found_than_the_rule_needs_and_no_model_is_twice_on_one(
    twins: tuple[Manifests, list[PlannedService]],
) -> None:
    made, planned = twins
    apart = [found.alone(one) for one in planned]
    assert found.fewest_found(apart, 4, 32_768, tries=2) in {3, 4}
    ways_found = found._ways(apart, 3, 32_768, Random(0), 6)  # noqa: S311
    assert ways_found
    assert all(len(set(gpu)) == len(gpu) for way in ways_found for gpu in way)
    assert made.services[0].metadata.name == planned[0].service.metadata.name


def test_small_services_differ_by_slices_alone() -> None:
    ideal, real = (small.small(1, 10, ideal=ideal) for ideal in (True, False))
    assert [one.spec.slo for one in ideal.services] == [one.spec.slo for one in real.services]
    assert [one.spec.load for one in ideal.services] == [one.spec.load for one in real.services]
    assert {e.factor for p in ideal.profiles for e in p.spec.interference or ()} == {"2"}
    assert all(float(e.factor) > 2 for p in real.profiles for e in p.spec.interference or ())


def test_room_is_what_placement_leaves() -> None:
    given_set = draws.drawn_set(0)
    room, service = ways.Room(given_set.nodes), given_set.manifests.services[0]
    wanted = ways.NOW.planned(service, given_set.manifests, room).instances[0]
    left = room.left(wanted)
    assert left == given_set.gpus[wanted.type]
    place = room.place(wanted)
    assert place is not None
    assert place.place.startswith(wanted.type)
    assert room.left(wanted) == left - 1, "a GPU holds a model once"


def test_goals_of_sets_are_missed_by_one() -> None:
    def played(*, holds: bool, **more: object) -> dict[str, object]:
        return {"name": "m0", "holds": holds, "within": True, "late": 0.0, "mean": 1.1} | more

    def row(*, holds: bool) -> dict[str, object]:
        beside = [played(holds=True, beside=how) for how in ("busy", "drawn")] + [played(holds=holds, beside="busy")]
        return {"instances": 8, "in_use": 4, "played": [played(holds=True)] * 10, "beside": beside}

    refused = {"refused": "m1", "reason": "CapacityTooLow"}
    page = sets.describe({"sigma": 1.75, "rows": [row(holds=True)] * 2 + [row(holds=False)] + [refused] * 2})
    assert line_of(page, "sets that are feasible").endswith("| 3 of 5; 2.00 instances on a GPU | held |")
    assert line_of(page, "services that hold at their").endswith("| 30 of 30 | held |")
    assert line_of(page, "services that hold beside neighbours that are always").endswith("| 5 of 6 | **missed** |")
    assert line_of(page, "services that hold beside neighbours at").endswith("| 3 of 3 | held |")


def test_neighbours_that_are_always_busy_are_offered_more_than_they_serve(
    twins: tuple[Manifests, list[PlannedService]],
) -> None:
    _, planned = twins
    one = planned[0]
    assert served._most(one) == pytest.approx(3 / given().models["resnet50"].latency["v100"])
    assert served._at(one, Random(0), "busy").rate > served._most(one)  # noqa: S311
