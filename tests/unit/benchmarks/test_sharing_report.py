"""The arithmetic of the report on shared GPUs: models, bookings, ways to share out, which goals hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.sharing import bookings, results, tenants
from benchmarks.sharing.parts import demo, price, rule, statements, traps

from hetserve.api.manifests import read_manifests


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
        "service": "one", "counts": {"hetsev-t4": 7, "hetsev-v100": 0}, "rate": 155.0, "holds": False, "late": 0.5,
        "alone": 0.01, "grows": True, "mean": 1.5, "most": 2.0, "percent": 250,
    }  # fmt: skip
    page = demo.describe({"speeds": {"1": [row], "0.8": [row, {"service": "two", "refused": "LoadNotCarried"}]}})
    assert line_of(page, "one") == (
        "| one | 7 t4 | carries 155 q/s | 1.0% | 50.0%, backlog grows | 1.50 | 2.00 | 250 % | **breaks** |"
    )
    assert line_of(page, "before").endswith("| 1 of 1 break; late up to 50% | held |")
    assert line_of(page, "T4s at 0.8").endswith("| 1 of 1 break; late up to 50%; 1 not planned |  |")


def test_profiles_get_shares_and_slower_t4s() -> None:
    profiles = {(p.spec.model, p.spec.instance_type): p for p in read_manifests([str(demo.SAMPLE)]).profiles}
    slow = demo.assumed(profiles["resnet50", demo.T4], 0.8).spec
    assert slow.latency.table is not None
    assert (slow.compute_share, slow.latency.table[-1].mean) == ("0.571", "50000us")
    same = demo.assumed(profiles["resnet50", "hetsev-v100"], 0.8).spec
    assert same.latency == profiles["resnet50", "hetsev-v100"].spec.latency
    assert {entry.model: entry.factor for entry in same.interference or ()}["resnet50"] == "1.200000"
    assert len(demo.nodes()) == 8


def test_the_page_names_what_waits_and_what_was_never_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.reporting.RESULTS", tmp_path)
    page = results.write().read_text()
    assert page.count("| not measured yet |") == len(results.NOT_YET) == 3
    assert "Not measured yet: `make bench-sharing FLAGS=traps`." in page
