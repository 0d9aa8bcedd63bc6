"""Services that follow what a Prometheus measures, from its scrapes to their Deployments, in virtual time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hetserve_operator.demand.polls import MIX_INTERVAL
from measured_story import NOTICED, WINDOW, MeasuredStory
from scaling_story import DOWN, HEAVY, LAUNCH, POLL, RATES, STALE, UP
from simulated_prometheus import EPOCH
from testing.builders import service
from testing.operator import path_of
from virtual_time import story

CALM, BUSY, LITTLE = 30.0, 60.0, 12.0
"""Queries/s."""
COVERED = 0.75
"""Share of a window for which samples must be there."""


async def serving(load: float = CALM) -> MeasuredStory:
    """A service that has a plan for a load that has long been there."""
    made = MeasuredStory()
    made.load.steps = [(0.0, load)]
    await made.until(60)
    assert holds(made.asked()) >= load / 0.8
    assert made.condition("Ready")["status"] == "True"
    return made


def holds(counts: dict[str, int]) -> float:
    """Queries/s, by the profiles."""
    return sum(RATES[kind] * count for kind, count in counts.items())


@story
async def test_a_load_that_doubles_is_carried_and_one_that_falls_gives_instances_back() -> None:
    sim = await serving()
    few = sim.asked()
    sim.load.steps += [(100.0, BUSY), (300.0, LITTLE)]
    before = await sim.until(100 + UP + 2 * POLL)
    after = await sim.until(300 + DOWN)
    assert all(counts == few for counts in before), "a load that has not lasted adds nothing"
    assert holds(after[round((NOTICED + POLL) / POLL)]) >= BUSY / 0.8
    assert all(counts == after[-1] for counts in after[20:]), "what fits on less for a while gives nothing back"
    assert sim.told()[0] == ("ScaleUp", "LoadAboveCapacity")

    last = (await sim.until(300 + DOWN + 2 * NOTICED))[-1]
    assert LITTLE / 0.8 <= holds(last) < CALM / 0.8
    assert sim.told()[0] == ("ScaleDown", "LoadFitsOnLess")
    assert {"LoadAboveCapacity", "LoadFitsOnLess"} <= set(sim.replayed())


@story
async def test_nothing_is_removed_while_prometheus_is_away_and_what_it_missed_is_made_good() -> None:
    """What is last seen is a load that has fallen, and would give instances back soon after."""
    sim = await serving(BUSY)
    sim.load.steps += [(100.0, LITTLE), (250.0, BUSY * 1.5)]
    many, told = sim.asked(), sim.told()
    await sim.until(100 + NOTICED)
    assert sim.newest() < CALM, "the fall is seen"
    sim.prometheus.down = "connection refused"
    away = await sim.until(320)
    assert all(counts == many for counts in away)
    assert sim.told() == told
    assert sim.condition("MetricsAvailable")["status"] == "False"
    assert "connection refused" in sim.condition("MetricsAvailable")["message"]
    assert sim.condition("ScalingActive")["reason"] == "WaitingForMetrics"

    sim.prometheus.down = ""
    back = await sim.until(320 + 2 * NOTICED)
    assert sim.condition("MetricsAvailable")["status"] == "True"
    assert holds(back[-1]) >= BUSY * 1.5 / 0.8
    assert all(counts[kind] >= many[kind] for counts in back for kind in many)
    assert sim.told()[0] == ("ScaleUp", "LoadAboveCapacity")


@story
async def test_a_prometheus_without_its_data_shrinks_nothing_until_the_window_is_covered() -> None:
    """Of the higher load nothing is left: every sample that there is shows the lower one."""
    sim = await serving(BUSY)
    sim.load.steps.append((100.0, LITTLE))
    await sim.until(100 + WINDOW + DOWN / 2)
    lost = sim.clock
    sim.prometheus.forget()
    seen = await sim.until(lost + POLL + WINDOW / 2)
    assert sim.condition("MetricsAvailable")["status"] == "False"
    seen += await sim.until(lost + WINDOW + DOWN + NOTICED)
    assert sim.condition("MetricsAvailable")["status"] == "True"
    assert holds(seen[-1]) < CALM / 0.8
    assert sim.made("LoadFitsOnLess") >= lost + COVERED * DOWN


@story
async def test_a_cut_is_obeyed_while_prometheus_hangs_and_both_numbers_are_told() -> None:
    sim = await serving(BUSY)
    many = sim.asked()
    sim.prometheus.slow = {"": 10.0}
    await sim.until(60 + STALE + NOTICED)
    assert sim.condition("MetricsAvailable")["status"] == "False"
    sim.spec(lambda spec: spec.update(budget={"hourly": "0.25"}))
    cut = await sim.until(sim.clock + 3 * POLL)
    assert cut[-1] == {"small": 2}
    await sim.until(sim.clock + 2 * POLL)
    assert sim.condition("WithinBudget")["status"] == "True"
    assert sim.condition("WithinBudget")["message"] == "what runs costs 0.200 $/h, the budget is 0.250 $/h"
    assert sim.condition("Feasible")["status"] == "False"
    assert "0.25 $/h" in sim.condition("Feasible")["message"]

    sim.prometheus.slow = {}
    assert all(counts == {"small": 2} for counts in await sim.until(sim.clock + 2 * NOTICED)), "the budget allows none"
    assert sim.condition("MetricsAvailable")["status"] == "True"
    sim.spec(lambda spec: spec.update(budget={"hourly": "2"}))
    assert (await sim.until(sim.clock + NOTICED))[-1] == many
    assert "BudgetCut" in sim.replayed()


async def refused_until(sim: MeasuredStory, second: float) -> list[dict[str, int]]:
    """Rounds in which the gate of each pod is lifted: the scheduler looks for a place."""
    seen = []
    while sim.clock < second:
        for path, pod in sim.cluster.pods():
            if pod["spec"].pop("schedulingGates", None) is not None:
                sim.api.touch(path)
        seen += await sim.until(sim.clock + POLL)
    return seen


@story
async def test_the_next_best_type_takes_what_the_cheapest_has_no_place_for_soon_after_its_launch_time() -> None:
    sim = await serving(CALM)
    assert sim.asked() == {"small": 4}
    sim.cluster.refused = {"small": "0/4 nodes are available: 4 Too many pods."}
    more = 1.5 * CALM
    sim.load.steps.append((100.0, more))
    seen = await refused_until(sim, 100 + NOTICED + UP)
    seen += await refused_until(sim, sim.made("LoadAboveCapacity") + LAUNCH + 30)
    assert holds({**sim.serving(), "small": 0}), "an instance of the next best type serves"
    assert max(counts["small"] for counts in seen) > 4
    assert sim.told()[0][1] == "TypeScarce"
    assert sim.decisions()[0]["instanceType"] == "small"
    assert LAUNCH <= sim.made("TypeScarce") - sim.made("LoadAboveCapacity") <= LAUNCH + 2 * POLL
    rest = (await sim.until(sim.clock + 2 * NOTICED))[-1]
    assert rest["small"] == 4, "none is planned that has no place"
    assert holds(sim.serving()) >= more / 0.8
    assert "TypeScarce" in sim.replayed()


def of_queries(rate: str) -> dict[str, Any]:
    return {"source": "Queries", "window": f"{WINDOW:g}s", "staleAfter": f"{STALE:g}s", "queries": {"rate": rate}}


@story
async def test_a_service_is_scaled_by_its_own_rate_while_a_wrong_query_holds_another() -> None:
    sim = await serving()
    few = sim.asked()
    sim.prometheus.loads = {}
    sim.prometheus.own = {"own": lambda at: sim.load.at(at - EPOCH)}
    sim.prometheus.broken = {"wrong(": "HTTP 400: bad_data: parse error"}
    sim.spec(lambda spec: spec.update(metrics=of_queries("own")))
    held = path_of(service("other"))
    sim.edit(held, lambda raw: raw["spec"].update(metrics=of_queries("wrong("), scaling={}))
    await sim.until(150)
    assert sim.asked() == few
    sim.load.steps.append((150.0, BUSY))
    assert holds((await sim.until(150 + 2 * NOTICED))[-1]) >= BUSY / 0.8
    assert sim.told()[0] == ("ScaleUp", "LoadAboveCapacity")
    assert sim.condition("MetricsAvailable")["status"] == "True"
    assert "LoadAboveCapacity" in sim.replayed()

    refused = sim.condition("MetricsAvailable", "other")
    assert refused["status"] == "False"
    assert "spec.metrics.queries.rate" in refused["message"]
    assert "parse error" in refused["message"]
    assert sim.condition("Ready", "other")["status"] == "True"


@story
async def test_a_service_is_planned_for_the_batch_sizes_that_are_counted_at_the_same_load() -> None:
    sim = await serving()
    few = sim.asked()
    assert "mix" not in sim.service()["status"]["plan"], "the sizes are as declared"
    sim.sizes(large=0.6)
    more = (await sim.until(sim.clock + MIX_INTERVAL + NOTICED))[-1]
    assert holds(few) / 1.6 < CALM / 0.8 <= holds(more) / 1.6
    assert {one["batch"] for one in sim.service()["status"]["plan"]["mix"]} == {1, HEAVY}
    assert sim.told()[0] == ("ScaleUp", "LoadAboveCapacity")


@story
async def test_late_queries_bring_instances_until_the_slo_holds_and_none_goes() -> None:
    """Instances carry six tenths of what their profiles say."""
    sim = await serving()
    sim.truth = 0.6
    seen = [sim.asked(), *await sim.until(600)]
    assert sim.carries(sim.serving())
    assert all(holds(after) >= holds(before) for before, after in pairwise(seen))
    assert holds(seen[-1]) <= 2 * CALM / 0.8, "as much as the profiles say may be wrong by, and no more"
    assert {one for one in sim.told() if one[0] != "FirstPlan"} == {("ScaleUp", "SLOMissed")}
    assert "met the SLO" in sim.decisions()[0]["message"]
    assert "SLOMissed" in sim.replayed()


@story
async def test_a_profile_that_is_right_brings_no_more() -> None:
    sim = await serving()
    sim.truth = 1.0
    few = sim.asked()
    assert all(counts == few for counts in await sim.until(600))
