"""The operator's questions to Prometheus over time, which is virtual."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from hetserve.base.units import Seconds
from hetserve.demand.observed import Demand, Freshness, Trouble
from hetserve.demand.queries import MetricsQuerySpec, OwnQueries
from hetserve.demand.windows import attained_below, highest, lowest
from hetserve_operator.demand.cache import DemandCache
from hetserve_operator.demand.polls import EARLY, LONGEST_PAUSE, DemandPoller
from hetserve_operator.metrics import OperatorMetrics
from hetserve_operator.workqueue import Key
from measured_demand import WANTED
from simulated_prometheus import EPOCH, SimulatedPrometheus
from virtual_time import story

INTERVAL = 15.0
ADS = Key("shop", "ads")


class Scene:
    """A poller at work from now on."""

    def __init__(
        self, wanted: dict[Key, MetricsQuerySpec] | None = None, load: Callable[[float], float] = lambda _: 100.0
    ) -> None:
        clock = asyncio.get_running_loop().time
        self.wanted = {ADS: WANTED} if wanted is None else wanted
        self.prometheus = SimulatedPrometheus()
        self.prometheus.loads = {(one.namespace, one.name): load for one in self.wanted.values() if one.own is None}
        self.metrics = OperatorMetrics()
        self.woken: list[tuple[float, Key]] = []
        self.book = DemandCache(
            clock, lambda key: self.woken.append((clock(), key)), configured=True, allow_queries=True
        )
        self.poller = DemandPoller(
            self.book,
            self.prometheus,
            self.prometheus,
            lambda: self.wanted,
            self.metrics,
            interval=INTERVAL,
            clock=clock,
        )
        self.tasks = [asyncio.ensure_future(loop()) for loop in self.poller.loops()]

    def demand(self, key: Key = ADS) -> Demand:
        found = self.book.demand(key, self.wanted[key])
        assert found is not None
        return found

    def asked(self, since: float = 0.0) -> Counter[str]:
        return Counter(promql for at, promql in self.prometheus.asked if at >= since)

    async def seen(self, seconds: float, every: float = 1.0, key: Key = ADS) -> list[Demand]:
        """Demand at each second."""
        found = []
        for _ in range(int(seconds / every)):
            await asyncio.sleep(every)
            found.append(self.demand(key))
        return found


@story
async def test_the_load_is_measured_at_once_and_at_each_interval() -> None:
    scene = Scene(load=lambda at: 100.0 if at < EPOCH + 200 else 300.0)
    await asyncio.sleep(1)
    assert scene.demand().freshness is Freshness.FRESH
    assert highest(scene.demand(), Seconds(300)) == pytest.approx(100)
    assert attained_below(scene.demand(), 0.99, Seconds(30))
    assert not attained_below(scene.demand(), 0.9, Seconds(30))
    mix = scene.demand().mix
    assert mix is not None
    assert mix.batches == (1, 8)

    await asyncio.sleep(330)

    assert lowest(scene.demand(), Seconds(30)) == pytest.approx(300)
    assert all(demand.age is not None and demand.age <= 2 * INTERVAL for demand in await scene.seen(60))


@story
async def test_questions_come_just_after_a_new_sample_can_be_there() -> None:
    scene = Scene()
    await asyncio.sleep(100)

    polls = [EPOCH + at for at, promql in scene.prometheus.asked if promql == "time()"][1:]
    assert all(0.0 < at % INTERVAL < 0.2 for at in polls)
    assert len(polls) == 6 or len(polls) == 7


@story
async def test_questions_grow_with_windows_and_not_with_services() -> None:
    def requests(scene: Scene, windows: int) -> int:
        polls = scene.asked()["time()"]
        mixes = sum(count for promql, count in scene.asked().items() if "batch_size" in promql)
        assert mixes == 1
        return (scene.asked().total() - polls - mixes) // (polls * windows)

    def of(services: int, *windows: float) -> Scene:
        names = [f"s{k}" for k in range(services)]
        window = {name: Seconds(windows[k % len(windows)]) for k, name in enumerate(names)}
        return Scene({Key("shop", name): replace(WANTED, name=name, window=window[name]) for name in names})

    few, many, two, three = of(1, 60.0), of(30, 60.0), of(30, 60.0, 90.0), of(30, 60.0, 90.0, 120.0)
    await asyncio.sleep(40)

    assert few.asked().total() == many.asked().total()
    assert [requests(few, 1), requests(many, 1), requests(two, 2), requests(three, 3)] == [4, 4, 4, 4]


@story
async def test_prometheus_away_for_long_makes_demand_stale_and_nothing_smaller() -> None:
    """Away for five times staleAfter while the load rises."""
    scene = Scene(load=lambda at: 100.0 if at < EPOCH + 60 else 400.0)
    await asyncio.sleep(50)
    scene.prometheus.down = "connection refused"
    away = await scene.seen(600)
    scene.prometheus.down = ""
    back = await scene.seen(40)

    states = [demand.freshness for demand in (*away, *back)]
    changes = [state for k, state in enumerate(states) if k == 0 or states[k - 1] is not state]
    assert changes == [Freshness.FRESH, Freshness.STALE, Freshness.FRESH]
    assert {demand.trouble for demand in away if demand.freshness is Freshness.STALE} == {Trouble.UNREACHABLE}
    assert all(demand.samples for demand in away)
    assert min(q for d in (*away, *back) if (q := highest(d, Seconds(300))) is not None) == pytest.approx(100)
    assert lowest(back[-1], Seconds(30)) == pytest.approx(400)


@story
async def test_a_prometheus_that_restarts_empty_says_nothing_until_the_window_is_covered() -> None:
    scene = Scene()
    await asyncio.sleep(50)
    scene.prometheus.forget()
    seen = await scene.seen(400)

    assert seen[20].freshness is Freshness.MISSING
    assert seen[120].freshness is Freshness.FRESH
    assert all(sample.qps == pytest.approx(100, rel=0.01) for demand in seen for sample in demand.samples)
    known = [k for k, demand in enumerate(seen) if k > 20 and highest(demand, Seconds(300)) is not None]
    assert known[0] >= 285


@story
async def test_targets_that_die_leave_the_load_as_it_was() -> None:
    scene = Scene()
    await asyncio.sleep(50)
    scene.prometheus.lose_targets()
    seen = await scene.seen(200)

    assert seen[100].freshness is Freshness.FRESH
    assert seen[160].freshness is Freshness.STALE
    assert all(sample.qps == pytest.approx(100) for demand in seen for sample in demand.samples)


@story
async def test_a_true_zero_is_a_load_of_zero() -> None:
    scene = Scene(load=lambda _: 0.0)
    await asyncio.sleep(20)

    assert scene.demand().freshness is Freshness.FRESH
    assert highest(scene.demand(), Seconds(300)) == 0.0


@story
async def test_rates_without_attainment_are_fresh_and_say_so() -> None:
    scene = Scene()
    scene.prometheus.broken = {"served|dropped": "HTTP 500: no"}
    await asyncio.sleep(20)

    assert scene.demand().freshness is Freshness.FRESH
    assert scene.demand().attained == ()
    assert scene.demand().notes[0] == "attainment is not known: Prometheus: HTTP 500: no"


@pytest.mark.parametrize("part", ["max by", "rate(hetserve_requests_total"])
def test_without_rates_or_their_times_what_was_known_ages(part: str) -> None:
    @story
    async def play() -> None:
        scene = Scene()
        await asyncio.sleep(50)
        scene.prometheus.broken = {part: "HTTP 503: too many queries"}
        await asyncio.sleep(200)
        assert (scene.demand().freshness, scene.demand().trouble) == (Freshness.STALE, Trouble.UNREACHABLE)
        assert "HTTP 503: too many queries" in scene.demand().why

    play()


@story
async def test_a_new_service_is_asked_for_before_its_turn() -> None:
    scene = Scene({})
    await asyncio.sleep(20)
    assert scene.prometheus.asked == []
    scene.prometheus.loads[ADS] = lambda _: 100.0
    scene.wanted[ADS] = WANTED
    scene.poller.soon()
    await asyncio.sleep(EARLY + 0.5)

    assert scene.demand().freshness is Freshness.FRESH


@story
async def test_many_new_services_are_asked_for_together() -> None:
    scene = Scene({})
    await asyncio.sleep(20)
    for k in range(10):
        scene.wanted[Key("shop", f"s{k}")] = replace(WANTED, name=f"s{k}")
        scene.poller.soon()
        await asyncio.sleep(0.1)
    await asyncio.sleep(EARLY)

    assert scene.asked()["time()"] == 1


# Services' own queries.


SHOP = [Key("shop", f"s{number}") for number in range(40)]


def asked_for(keys: Iterable[Key], **fields: Any) -> dict[Key, MetricsQuerySpec]:
    return {key: replace(WANTED, namespace=key.namespace, name=key.name, **fields) for key in keys}


@story
async def test_a_short_window_with_a_long_history_takes_metrics_from_nobody() -> None:
    one = asked_for(SHOP[:1], window=Seconds(20.0), down_window=Seconds(3600.0))
    finest = asked_for(SHOP[1:2], window=Seconds(1.0), down_window=Seconds(3600.0))
    scene = Scene(one | finest | asked_for(SHOP[2:4], window=Seconds(20.0)) | asked_for(SHOP[4:5], window=Seconds(1.0)))
    await asyncio.sleep(1)
    states = [scene.demand(key).freshness for key in (SHOP[0], SHOP[2], SHOP[3])]
    assert states == [Freshness.FRESH] * 3
    # Samples of a scrape each 5 s are too far apart for those, which is theirs alone.
    assert {scene.demand(key).trouble for key in (SHOP[1], SHOP[4])} == {None}


@story
async def test_only_the_service_whose_query_is_refused_says_so_and_is_asked_ever_more_seldom() -> None:
    scene = Scene(asked_for(SHOP))
    scene.prometheus.refused = {SHOP[17], SHOP[30]}
    await asyncio.sleep(5)
    refused = {key for key in SHOP if scene.demand(key).trouble is Trouble.QUERY_REFUSED}
    assert refused == {SHOP[17], SHOP[30]}
    assert "too many samples" in scene.demand(SHOP[17]).why
    assert all(scene.demand(key).freshness is Freshness.FRESH for key in SHOP if key not in refused)
    assert all(scene.demand(key).mix is not None for key in SHOP if key not in refused)
    begun = asyncio.get_running_loop().time()
    await asyncio.sleep(300)
    alone = sum(count for promql, count in scene.asked(begun).items() if 'service=~"s17"' in promql)
    assert alone < 2 * 10 + 5, "four at most each five minutes, and the mix"
    assert scene.asked(begun).total() < 300 / INTERVAL * 8 + 300 / 60 * 14
    assert scene.demand(SHOP[0]).freshness is Freshness.FRESH

    scene.prometheus.refused.clear()
    await asyncio.sleep(LONGEST_PAUSE + INTERVAL)
    assert {scene.demand(key).freshness for key in SHOP} == {Freshness.FRESH}
    begun = asyncio.get_running_loop().time()
    await asyncio.sleep(INTERVAL)
    assert scene.asked(begun).total() <= 6, "they are asked about together again"


@story
async def test_a_service_whose_latencies_alone_are_refused_keeps_its_rates_and_costs_nobody_theirs() -> None:
    scene = Scene(asked_for(SHOP[:8]))
    scene.prometheus.refused = {SHOP[3]}
    scene.prometheus.refuses = "_bucket"
    await asyncio.sleep(600)
    assert all(scene.demand(key).freshness is Freshness.FRESH for key in SHOP[:8])
    assert [key for key in SHOP[:8] if not scene.demand(key).attained] == [SHOP[3]]
    (note, *_) = scene.demand(SHOP[3]).notes
    assert note.startswith("attainment is not known: Prometheus: query processing")


def own(promql: str, name: str) -> dict[Key, MetricsQuerySpec]:
    return {Key("shop", name): replace(WANTED, name=name, own=OwnQueries(promql))}


@story
async def test_an_own_query_is_measured_and_a_lower_bound() -> None:
    scene = Scene(own("sum(rate(x[1m]))", "mail"))
    scene.prometheus.own["sum(rate(x[1m]))"] = lambda _: 50.0
    await asyncio.sleep(5)

    demand = scene.demand(Key("shop", "mail"))
    assert demand.freshness is Freshness.FRESH
    assert demand.lower_bound
    assert highest(demand, Seconds(300)) == 50.0


@story
async def test_a_slow_query_of_one_tenant_delays_no_other() -> None:
    slow = {key: one for k in range(3) for key, one in own(f"slow {k}", f"slow-{k}").items()}
    scene = Scene({ADS: WANTED, **slow, **own("good", "good")})
    scene.prometheus.own["good"] = lambda _: 50.0
    scene.prometheus.slow["slow"] = 5.0
    await asyncio.sleep(30)
    of_contract = await scene.seen(300)
    good = await scene.seen(300, key=Key("shop", "good"))

    assert all(demand.age is not None and demand.age < 2 * INTERVAL + 1 for demand in of_contract)
    assert all(demand.freshness is Freshness.FRESH for demand in good)
    assert scene.demand(Key("shop", "slow-0")).trouble is Trouble.UNREACHABLE


@story
async def test_a_query_that_fails_again_and_again_is_asked_ever_more_seldom() -> None:
    scene = Scene({**own("bad(", "bad"), **own("slow", "slow")})
    scene.prometheus.broken["bad("] = "parse error: unclosed left parenthesis"
    scene.prometheus.slow["slow"] = 5.0
    await asyncio.sleep(3600)

    demand = scene.demand(Key("shop", "bad"))
    assert (demand.freshness, demand.trouble) == (Freshness.INVALID, Trouble.QUERY_REFUSED)
    assert demand.why == (
        "spec.metrics.queries.rate 'bad(': Prometheus: parse error: unclosed left parenthesis; it must be PromQL for "
        "queries/s"
    )
    for promql in ("bad(", "slow"):
        assert 3600 / LONGEST_PAUSE <= scene.asked()[promql] <= 3600 / LONGEST_PAUSE + 8
    assert scene.asked()["time()"] < 40, "nor Prometheus for its clock"


@story
async def test_an_edited_query_is_asked_at_once() -> None:
    key = Key("shop", "mail")
    scene = Scene(own("bad(", "mail"))
    scene.prometheus.broken["bad("] = "parse error: unclosed left parenthesis"
    scene.prometheus.own["good"] = lambda _: 50.0
    await asyncio.sleep(1000)
    scene.wanted |= own("good", "mail")
    scene.poller.soon()
    await asyncio.sleep(EARLY + 0.5)

    assert scene.demand(key).freshness is Freshness.FRESH


@story
async def test_polls_are_counted_by_result() -> None:
    scene = Scene({ADS: WANTED, **own("bad(", "bad")})
    scene.prometheus.broken["bad("] = "parse error: no"
    await asyncio.sleep(20)
    scene.prometheus.down = "away"
    await asyncio.sleep(INTERVAL)

    text = (await scene.metrics.text()).decode()
    for source, result, count in (("Hetserve", "ok", 2), ("Hetserve", "failed", 1), ("Queries", "refused", 2)):
        line = f'hetserve_operator_demand_polls_total{{result="{result}",source="{source}"}} {count}.0'
        assert line in text, text


@story
async def test_only_polls_that_ask_are_timed() -> None:
    scene = Scene()
    await asyncio.sleep(20)

    text = (await scene.metrics.text()).decode()
    assert 'hetserve_operator_demand_poll_seconds_count{source="Hetserve"} 2.0' in text
    assert 'source="Queries"' not in text
