"""The arithmetic of the report on shared GPUs: models, bookings, ways to share out, which goals hold."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import Any

import pytest
from benchmarks.sharing import bookings, draws, packing, results, rows, tenants, ways
from benchmarks.sharing.parts import demo, density, price, rule, sets, statements, traps

from hetserve.api.manifests import read_manifests
from hetserve.base.units import Millionths
from hetserve.planning.tenancy import Tenancy
from hetserve.profiles.sharing import ONE, compute_share
from hetserve.registry.placement_policies import default_placement_policy


def line_of(page: str, start: str) -> str:
    return next(line for line in page.splitlines() if line.startswith(f"| {start}"))


def test_two_of_a_model_are_slowed_by_what_they_do_to_each_other_or_by_their_shares() -> None:
    assert tenants.stretches(tenants.models([("resnet50", 8)] * 2)) == pytest.approx([1.2, 1.2])
    assert tenants.stretches(tenants.models([("resnet50", 8)] * 2, scale=0.5)) == pytest.approx([1.142, 1.142])
    one, other = tenants.models([("inception-v3", 16), ("transformer", 4)])
    assert one.inflicts[other.name] == other.inflicts[one.name] == 0.05


def test_copies_that_are_always_busy_gain_what_their_stretch_leaves() -> None:
    alike = traps.equal(3, 0.5)
    assert tenants.throughput(alike, 400) == pytest.approx(3 / 1.5, rel=0.02)


def test_a_neighbour_that_is_seldom_there_is_met_at_times() -> None:
    often, seldom = tenants.met(traps.equal(2, 0.75), [0.5, 0.05], 300)
    assert often.stretch.most == seldom.stretch.most == pytest.approx(1.5)
    assert 1 < often.stretch.mean < seldom.stretch.mean < 1.5


@pytest.mark.parametrize("exact", [False, True])
def test_gpus_are_filled_to_at_most_the_whole(*, exact: bool) -> None:
    rng = random.Random(1)  # noqa: S311
    for _ in range(20):
        given = bookings.full_gpu(rng, exact=exact)
        assert len(given) > 1
        assert sum(one.percent for one in given) <= 100


def test_tight_tenants_use_all_that_they_book() -> None:
    one, rng = bookings.booked(0.625, 1.125), random.Random(2)  # noqa: S311
    assert one.percent == 50
    assert max(tenants.stretches(bookings.tenants([one, one]))) == pytest.approx(1.25)
    assert bookings.tight(rng).share <= 0.8


def test_a_factor_is_inflicted_whole_whatever_the_batches() -> None:
    given = [bookings.booked(0.2, 1.2, batch=2), bookings.booked(0.2, 1.1, batch=16)]
    assert tenants.stretches(bookings.tenants(given)) == pytest.approx([1.1, 1.2])


def test_every_way_to_share_out_is_tried_once() -> None:
    ways = [frozenset(way) for way in bookings.partitions(4)]
    assert len(ways) == len(set(ways)) == 15
    assert all(sum(way) == 15 for way in ways)
    good = [len(bookings.members(gpu)) < 3 for gpu in range(16)]
    assert len(bookings.fewest(4, good)) == 2
    assert bookings.members(0b1010) == [1, 3]


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


def test_statements_are_judged_at_the_note_s_coefficients() -> None:
    good = [{"models": ["resnet50"] * 2, "batches": [16, 16], "stretch": 1.4}] * 14
    mild = [{"models": ["resnet50", "transformer"], "batches": [2, 2], "stretch": 1.1}] * 146
    copies = [{"model": "m", "computed": [1, 1.7, 1.85], "played": [1, 1.7, 1.95]}] * 4
    scales = ("0.8", "1", "1.2")
    gains = {scale: [[1, 1.7, 1.85]] for scale in scales}
    page = statements.describe({"pairs": dict.fromkeys(scales, good + mild), "replicas": copies, "gains": gains})
    assert line_of(page, "pairs slowed").endswith("| 146 of 160 (91.2%) | held |")
    assert line_of(page, "worst pairs").endswith("| held |")
    assert line_of(page, "three copies, computed").endswith("| 1.850 x | held |")
    assert line_of(page, "three copies, played").endswith("| 1.950 x | **missed** |")
    assert line_of(page, "every c x 1.2").endswith("| 146 of 160 (91.2%); 1.850 x |  |")


def test_the_demo_says_what_each_plan_holds() -> None:
    row = {
        "service": "one", "counts": {"hetsev-t4": 7, "hetsev-v100": 0}, "cost": 504_000, "rate": 155.0, "placed": True,
        "holds": False, "late": 0.5, "alone": 0.01, "grows": True, "mean": 1.5, "most": 2.0, "percent": 250,
    }  # fmt: skip
    good = {**row, "holds": True, "late": 0.01, "grows": False, "most": 1.25, "percent": 100}
    other = {"before": [row, {"service": "two", "refused": "LoadNotCarried"}], "now": [good]}
    page = demo.describe(
        {"before": [row], "now": [good], "roomy": [row], "speeds": {"0.8": other}, "harm": {"1.2": [good]}}
    )
    assert line_of(page, "before | one") == (
        "| before | one | 7 t4 | 0.504 | carries 155 q/s | 1.0% | 50.0%, backlog grows | 1.50 | 2.00 | 250 % "
        "| **breaks** |"
    )
    assert line_of(page, "before, services").endswith("| 1 of 1 break; late up to 50.00% | held |")
    assert line_of(page, "now, services").endswith("| 0 of 1 break; late up to 1.00% | held |")
    assert line_of(page, "now, greatest").endswith("| 1.250 | held |")
    assert line_of(page, "T4s at 0.8 x the sample's speed, before").endswith("late up to 50.00%; 1 not planned |  |")
    assert line_of(page, "now, played with every c x 1.2").endswith("| 0 of 1 break; late up to 1.00% |  |")
    missed = demo.describe({"before": [good], "now": [row], "roomy": [], "speeds": {}, "harm": {}})
    assert missed.count("**missed**") == 3


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


def test_two_of_the_sample_models_share_a_gpu_and_three_do_not() -> None:
    percents = {}
    for profile in sample().profiles:
        found = compute_share(profile.spec)
        assert found is not None
        percents[profile.spec.model] = found.booking(Millionths(1_250_000))
    assert percents == {"resnet50": 50, "inception-v3": 50, "ssd-resnet50": 45, "transformer": 40}


def test_profiles_get_slower_t4s_and_other_factors() -> None:
    profiles = {(p.spec.model, p.spec.instance_type): p for p in sample().profiles}
    slow = demo.at_speed(profiles["resnet50", demo.T4], 0.8).spec
    assert slow.latency.table is not None
    assert slow.latency.table[-1].mean == "50000us"
    assert demo.at_speed(profiles["resnet50", "hetsev-v100"], 0.8) is profiles["resnet50", "hetsev-v100"]
    harmed = demo.with_harm(profiles["resnet50", demo.T4], 1.2).spec
    assert {entry.model: entry.factor for entry in harmed.interference or ()}["inception-v3"] == "1.102000"
    assert len(demo.nodes(10)) == 14


def test_before_nothing_of_compute_is_planned_and_all_of_it_is_met() -> None:
    manifests = sample()
    service = next(one for one in manifests.services if one.metadata.name == "resnet50")
    before, now = (way.planned(service, manifests) for way in (ways.BEFORE, ways.NOW))
    assert {wanted.request.compute for wanted in before.instances} == {None}
    assert {wanted.request.compute for wanted in now.instances} == {50}
    assert {option.gpu.tenancy for option in before.problem.types if option.gpu} == {Tenancy.UNDECLARED}
    assert len(before.instances) < len(now.instances)
    assert all(compute_share(offer.profile.spec) is not None for offer in before.offers.values())


def test_a_set_is_what_its_number_says_and_within_what_is_stated() -> None:
    assert draws.drawn_set(7) == draws.drawn_set(7) != draws.drawn_set(8)
    for number in range(20):
        given = draws.drawn_set(number)
        assert 8 <= len(given.nodes) <= 16
        assert 2 <= given.gpus[draws.FAST] <= len(given.nodes) / 2
        assert 3 <= len(given.manifests.services) <= 6
        for profile in given.manifests.profiles:
            found = compute_share(profile.spec)
            assert found is not None
            assert 150_000 <= found.share <= ONE <= found.greatest_factor <= 1_250_000
            assert {entry.model for entry in found.interference} == {
                one.metadata.name for one in given.manifests.services if one.metadata.name != profile.spec.model
            }


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


def test_instances_are_packed_by_memory_compute_and_model() -> None:
    half = bookings.booked(0.6, 1.0)
    assert half.percent == 50
    one = packing.Piece("a", half, 6 * 1024, 0.5)
    other, same, large = (packing.Piece(m, half, mib * 1024, 0.5) for m, mib in (("b", 6), ("a", 6), ("b", 10)))
    worst = packing.POLICIES[0]
    assert [packing.needs([one, x], worst) for x in (other, same, large)] == [1, 2, 2]
    assert packing.used([one, other, same], worst, 1) is None
    assert packing.used([one, other], worst, 4) == 2


def test_a_set_of_pieces_is_packed_as_densely_as_can_be_and_no_denser_than_what_holds() -> None:
    assert packing.drawn_pieces(3) == packing.drawn_pieces(3)
    row = packing.packed(1)
    assert row["play"] <= row["rule"] <= packing.GPUS
    assert all(row["rule"] <= needed <= row["instances"] for needed in row["needs"].values())


def test_density_counts_gpus_of_all_sets() -> None:
    default = default_placement_policy()
    row = {"instances": 6, "rule": 2, "play": 1, "needs": {default: 2}, "used": {default: 4}}
    page = density.describe({"sigma": 1.25, "rows": [row, {**row, "needs": {default: 3}, "used": {default: None}}]})
    assert line_of(page, f"`{default}`") == f"| `{default}` | 5 | 1.25 | 4 | 2.00 | 1 of 2 |"
    assert line_of(page, "GPUs that placement needs").endswith("| 1.25 | held |")
    assert line_of(page, "fewest by the rule").endswith("| 2.00 |  |")


def test_rows_that_are_kept_are_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FOLDER", tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    rows_of: Any = rows.rows_of  # here of numbers, which are quick to make
    numbers = (3, 4)
    first, other = rows_of("some", math.factorial, numbers)
    assert (first, other) == (6, 24)
    kept = [tmp_path / "some" / f"{number}.json" for number in numbers]
    kept[0].write_text(kept[1].read_text())
    assert rows_of("some", math.factorial, numbers) == [other, other]
    kept[0].write_text('{"code": "of another version", "row": {}}')
    assert rows_of("some", math.factorial, numbers) == [first, other]
    kept[1].write_text(kept[0].read_text())
    assert rows_of("some", math.factorial, numbers, keep=False) == [first, other]


def test_a_run_that_is_cut_off_keeps_what_it_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "FOLDER", tmp_path)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    fails_below_0: Any = math.factorial
    with pytest.raises(ValueError, match="negative"):
        rows.rows_of("some", fails_below_0, [3, 4, -1])
    assert sorted(path.name for path in (tmp_path / "some").iterdir()) == ["3.json", "4.json"]


def test_the_page_names_what_is_measured_elsewhere_and_what_never_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.reporting.RESULTS", tmp_path)
    page = results.write().read_text()
    assert "| `make bench-placement FLAGS=rates`, " in page
    assert "Not measured yet: `make bench-sharing FLAGS=traps`." in page
