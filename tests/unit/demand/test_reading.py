"""Which state of the measurement is Fresh, Stale, Missing or Invalid, from scrapes through to demand."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from hetserve.base.units import Seconds
from hetserve.demand.answers import Points, Series
from hetserve.demand.observed import Demand, Freshness, Trouble
from hetserve.demand.queries import Group, OwnQueries, Part, RangeQuery, group_queries, groups
from hetserve.demand.reading import PrometheusSamples, aged, read_demand, unknown
from hetserve.demand.windows import highest, lowest
from measured_demand import WANTED
from scrapes import LOOK_BACK, Scrapes, counter, over, rate, stamp

NOW = 10_003.0
"""Some seconds after the last moment of the range, and after the last scrape."""
LABELS = {"namespace": "shop", "service": "ads"}
OWN = replace(WANTED, own=OwnQueries("sum(rate(istio_requests_total[1m]))", latency="histogram_quantile(...)"))
(GROUP,) = groups([WANTED])
FOR_EVER = [float(t) for t in range(8_002, 10_003, 15)]


def asked(part: Part, now: float = NOW, group: Group = GROUP) -> tuple[float, float, float]:
    query = group_queries(group)[part]
    assert isinstance(query, RangeQuery)
    return (*query.moments(now), query.step)


def answered(scrapes: Scrapes, now: float = NOW, look_back: float = LOOK_BACK) -> PrometheusSamples:
    points = over(*asked(Part.RATE, now), lambda at: rate(scrapes, at, WANTED.window))
    stamps = over(*asked(Part.SAMPLED_AT, now), lambda at: stamp(scrapes, at, look_back))
    return PrometheusSamples(
        last=asked(Part.RATE, now)[1], rate=[Series(LABELS, points)] if points else [], sampled_at=stamps
    )


def read(scrapes: Scrapes, now: float = NOW, look_back: float = LOOK_BACK) -> Demand:
    return read_demand(WANTED, answered(scrapes, now, look_back), now)


def steady(qps: float, *, since: float = 0.0, until: float = math.inf) -> list[tuple[float, float]]:
    """A load since always, scraped from `since` to `until`."""
    return counter(lambda _: qps, [t for t in FOR_EVER if since <= t <= until])


def test_a_steady_load_is_fresh_at_the_time_of_its_samples() -> None:
    demand = read(steady(100))

    assert (demand.freshness, demand.why, demand.trouble) == (Freshness.FRESH, "", None)
    assert {round(sample.qps, 6) for sample in demand.samples} == {100.0}
    assert {sample.at % 15 for sample in demand.samples} == {7.0}, "of the scrapes, not of the moments asked for"
    assert demand.age == 21.0
    assert highest(demand, Seconds(300)) == pytest.approx(100)


def test_true_zeros_are_a_load_of_zero() -> None:
    demand = read(steady(0))

    assert demand.freshness is Freshness.FRESH
    assert highest(demand, Seconds(300)) == 0.0


def test_a_dead_target_is_never_read_as_a_falling_load() -> None:
    """Prometheus's look-back and rate() go on for minutes; the samples end with the last scrape."""
    scrapes = steady(100, until=9_900)
    for later in range(0, 600, 15):
        demand = read(scrapes, now=9_900.0 + later)
        assert all(sample.qps == pytest.approx(100) for sample in demand.samples)
        assert demand.freshness is not Freshness.FRESH or later <= 120 + 15
    assert read(scrapes, now=9_900 + 112).freshness is Freshness.FRESH
    assert read(scrapes, now=9_900 + 113).freshness is Freshness.STALE
    assert read(scrapes, now=9_900 + 600).freshness is Freshness.MISSING


def test_a_dead_target_is_stale_with_a_short_look_back_as_well() -> None:
    scrapes = steady(100, until=9_800)

    demand = read(scrapes, now=9_950, look_back=15)

    assert demand.freshness is Freshness.STALE
    assert demand.why == "the newest sample is 163 s old, of at most 120 s (staleAfter)"
    assert {round(sample.qps) for sample in demand.samples} == {100}


def test_a_prometheus_that_restarted_empty_is_missing_until_the_window_is_covered() -> None:
    began = 9_707.0
    scrapes = steady(100, since=began)
    seen = {later: read(scrapes, now=began + later) for later in range(0, 301, 5)}

    assert seen[0].freshness is Freshness.MISSING
    assert seen[45].freshness is Freshness.MISSING
    assert seen[45].why == (
        'hetserve_requests_total{namespace="shop", service="ads"}: samples do not lie throughout the window of 60 s yet'
    )
    assert seen[80].freshness is Freshness.FRESH
    assert all(s.qps == pytest.approx(100, rel=0.02) for demand in seen.values() for s in demand.samples)
    assert all(highest(demand, Seconds(300)) is None for later, demand in seen.items() if later < 285)


def test_a_service_that_has_just_begun_is_missing_and_not_small() -> None:
    scrapes = counter(lambda _: 100.0, [t for t in FOR_EVER if t >= 9_950], began=9_950)

    assert read(scrapes, now=9_990).freshness is Freshness.MISSING


def test_nothing_at_all_is_missing_and_not_zero() -> None:
    demand = read([])

    assert demand.freshness is Freshness.MISSING
    assert demand.samples == ()
    assert (
        demand.why == 'no series hetserve_requests_total{namespace="shop", service="ads"}: that is not taken for zero'
    )


def test_a_counter_that_was_reset_is_no_negative_load() -> None:
    scrapes = [(t, v if t < 9_900 else v - 190_000) for t, v in steady(100)]

    demand = read(scrapes)

    assert demand.freshness is Freshness.FRESH
    assert min(sample.qps for sample in demand.samples) > 50


def test_a_lost_scrape_is_no_gap_and_an_outage_is_one() -> None:
    lost = [one for k, one in enumerate(steady(100)) if k != len(FOR_EVER) - 8]
    away = [(t, v) for t, v in steady(100) if not 9_810 <= t <= 9_890]

    assert lowest(read(lost), Seconds(300)) == pytest.approx(100)
    demand = read(away)
    assert demand.freshness is Freshness.FRESH
    assert highest(demand, Seconds(300)) is None
    assert all(sample.qps == pytest.approx(100, rel=0.02) for sample in demand.samples)


def test_a_slow_scrape_of_half_the_window_is_enough() -> None:
    demand = read([one for k, one in enumerate(steady(100)) if k % 2])

    assert demand.freshness is Freshness.FRESH
    assert highest(demand, Seconds(300)) == pytest.approx(100)


BAD_VALUES: dict[str, tuple[float, str]] = {
    "NaN": (math.nan, "the rate is nan queries/s"),
    "infinite": (math.inf, "the rate is inf queries/s"),
    "negatively infinite": (-math.inf, "the rate is -inf queries/s"),
    "negative": (-1.5, "the rate is -1.5 queries/s"),
}


@pytest.mark.parametrize(("value", "words"), BAD_VALUES.values(), ids=list(BAD_VALUES))
def test_a_newest_rate_that_is_none_is_invalid(value: float, words: str) -> None:
    good = answered(steady(100))
    points = [*good.rate[0].points[:-1], (good.last, value)]

    demand = read_demand(WANTED, replace(good, rate=[Series(LABELS, points)]), NOW)

    assert demand.freshness is Freshness.INVALID
    assert words in demand.why
    assert 'hetserve_requests_total{namespace="shop", service="ads"}' in demand.why
    assert lowest(demand, Seconds(30)) is None


@pytest.mark.parametrize("value", [value for value, _ in BAD_VALUES.values()], ids=list(BAD_VALUES))
def test_an_older_rate_that_is_none_is_a_gap(value: float) -> None:
    good = answered(steady(100))
    points = [(at, value if 9_850 <= at <= 9_920 else q) for at, q in good.rate[0].points]

    demand = read_demand(WANTED, replace(good, rate=[Series(LABELS, points)]), NOW)

    assert demand.freshness is Freshness.FRESH
    assert highest(demand, Seconds(300)) is None
    assert highest(demand, Seconds(60)) == pytest.approx(100)


def test_a_series_that_comes_twice_is_invalid() -> None:
    good = answered(steady(100))

    demand = read_demand(WANTED, replace(good, rate=[*good.rate, *good.rate]), NOW)

    assert demand.freshness is Freshness.INVALID
    assert "2 series" in demand.why


# What a service's own queries answer.


def own(points: Points, **more: object) -> Demand:
    found = [Series({}, points)] if points else []
    return read_demand(OWN, replace(PrometheusSamples(last=9_990.0, rate=found), **more), NOW)  # type: ignore[arg-type]


def line(value: Callable[[float], float] = lambda _: 100.0, first: float = 9_600, last: float = 9_990) -> Points:
    return over(first, last, 15.0, value)


def test_own_queries_are_a_lower_bound_since_they_may_count_completions() -> None:
    demand = own(line())

    assert demand.freshness is Freshness.FRESH
    assert demand.lower_bound
    assert highest(demand, Seconds(300)) == 100.0


def test_what_an_own_query_answered_while_its_data_ended_does_not_count() -> None:
    """The last minute of a rate over a minute may be the fall of a target that died."""
    falling = line(lambda at: 100.0 if at <= 9_840 else 100 - (at - 9_840) / 0.6, last=9_900)

    demand = own(falling)

    assert {sample.qps for sample in demand.samples} == {100.0}
    assert demand.freshness is Freshness.STALE


def test_the_first_window_of_an_own_query_does_not_count() -> None:
    assert own(line(first=9_945)).freshness is Freshness.MISSING
    assert own(line(first=9_930)).freshness is Freshness.FRESH


def test_an_own_query_without_an_answer_is_missing() -> None:
    demand = own([])

    assert demand.freshness is Freshness.MISSING
    assert demand.why == "spec.metrics.queries.rate: no series; an empty answer is not taken for zero"


def test_several_series_of_an_own_query_are_named() -> None:
    found = [Series({"pod": name}, line()) for name in "abcd"]

    demand = read_demand(OWN, PrometheusSamples(last=9_990.0, rate=found), NOW)

    assert (demand.freshness, demand.trouble) == (Freshness.INVALID, Trouble.QUERY_REFUSED)
    assert demand.why == (
        'spec.metrics.queries.rate: 4 series ({pod="a"}, {pod="b"}, {pod="c"}, ...), and one is wanted; '
        "aggregate them, for example with sum()"
    )


def test_a_latency_above_the_slo_is_attainment_below_the_percentile() -> None:
    latency = line(lambda at: {9_945: math.inf, 9_960: 0.35, 9_975: 0.36}.get(int(at), math.nan))

    demand = own(line(), latency=[Series({}, latency)])

    assert [(s.at, s.share) for s in demand.attained] == [(9_945.0, 0.0), (9_960.0, 0.99), (9_975.0, 0.0)]


@pytest.mark.parametrize(
    ("latency", "words"),
    [
        ([Series({"a": "1"}, line()), Series({"a": "2"}, line())], "spec.metrics.queries.latency: 2 series"),
        ([Series({}, line(lambda _: -1.0))], "spec.metrics.queries.latency is -1 s; it must be at least 0"),
    ],
)
def test_a_latency_that_is_none_leaves_the_rate_fresh(latency: list[Series], words: str) -> None:
    demand = own(line(), latency=latency)

    assert demand.freshness is Freshness.FRESH
    assert demand.attained == ()
    assert words in demand.notes[0]


# Attainment and mix of the contract.


def with_ended(ended: float, in_time: float | None) -> Demand:
    good = answered(steady(100))
    moments = [at for at, _ in good.rate[0].points][-6:]
    within = {} if in_time is None else {0.35: [(at, in_time) for at in moments]}
    return read_demand(WANTED, replace(good, ended=[(at, ended) for at in moments], in_time=within), NOW)


def test_attainment_is_the_share_in_time_of_what_ended() -> None:
    assert {round(s.share, 6) for s in with_ended(50, 45).attained} == {0.9}
    assert {s.share for s in with_ended(50, 50.3).attained} == {1.0}, "each rate is extrapolated by itself"
    assert with_ended(0, 0).attained == ()


@pytest.mark.parametrize(
    ("in_time", "words"),
    [
        (60.0, "60 queries/s are in time of 50 that end"),
        (-1.0, "-1 queries/s are in time of 50 that end"),
        (math.nan, "nan queries/s are in time of 50 that end"),
        (None, "hetserve_request_duration_seconds has no bucket le=0.35, which is slo.latency"),
    ],
)
def test_attainment_that_is_none_leaves_the_rate_fresh(in_time: float | None, words: str) -> None:
    demand = with_ended(50, in_time)

    assert demand.freshness is Freshness.FRESH
    assert demand.attained == ()
    assert demand.notes == (f"attainment is not known: {words}",)


def test_the_mix_is_read_from_the_buckets_or_said_not_to_be_known() -> None:
    good = answered(steady(100))

    demand = read_demand(WANTED, replace(good, buckets={1: 100, 4: 100, 8: 400, math.inf: 400}), NOW)
    assert demand.mix is not None
    assert (demand.mix.batches, demand.mix.shares) == ((1, 8), (0.25, 0.75))
    assert (demand.mix_queries, demand.mix_bounds) == (400, (1, 4, 8))
    none = read_demand(WANTED, replace(good, buckets={1: 10, math.inf: 10}), NOW)
    assert none.mix is None
    assert none.notes == ("the mix of batch sizes is not known: 10 queries are too few for a mix, which takes 100",)


# Time that passes without a new answer.


def test_fresh_demand_without_new_answers_becomes_stale_and_says_why() -> None:
    fresh = read(steady(100))
    later = aged(fresh, Seconds(99), WANTED.stale_after, "Prometheus: connection refused")
    late = aged(fresh, Seconds(100), WANTED.stale_after, "Prometheus: connection refused")

    assert (later.freshness, later.trouble) == (Freshness.FRESH, None)
    assert (late.freshness, late.trouble) == (Freshness.STALE, Trouble.UNREACHABLE)
    assert late.why == ("the newest sample is 121 s old, of at most 120 s (staleAfter); Prometheus: connection refused")
    assert late.samples == fresh.samples


def test_what_was_refused_stays_refused_while_prometheus_is_away() -> None:
    refused = unknown(Trouble.QUERY_REFUSED, "queries.rate: parse error")

    assert refused.freshness is Freshness.INVALID
    assert aged(refused, Seconds(999), WANTED.stale_after, "away") == replace(refused, now=999.0)


def test_what_was_not_asked_yet_becomes_unreachable() -> None:
    waiting = unknown(Trouble.NOT_ASKED, "not asked yet")

    looked = aged(waiting, Seconds(5), WANTED.stale_after, "Prometheus: no answer within 10 s")

    assert (looked.freshness, looked.trouble) == (Freshness.MISSING, Trouble.UNREACHABLE)
    assert looked.why == "not asked yet; Prometheus: no answer within 10 s"


def scraped_each(distance: float, window: float) -> Demand:
    """Of a load of 100 queries/s."""
    wanted = replace(WANTED, window=Seconds(window), stale_after=Seconds(max(120.0, window)))
    (group,) = groups([wanted])
    scrapes = counter(lambda _: 100.0, [NOW - 3 - distance * k for k in reversed(range(int(4000 / distance)))])
    points = over(*asked(Part.RATE, group=group), lambda at: rate(scrapes, at, wanted.window))
    stamps = over(*asked(Part.SAMPLED_AT, group=group), lambda at: stamp(scrapes, at))
    rates = [Series(LABELS, points)] if points else []
    return read_demand(wanted, PrometheusSamples(last=NOW, rate=rates, sampled_at=stamps), NOW)


@pytest.mark.parametrize("distance", [32, 45, 59, 60, 61, 90, 120])
@pytest.mark.parametrize("window", [8, 60])
def test_samples_too_far_apart_for_the_window_are_told_with_both_remedies(distance: float, window: float) -> None:
    demand = scraped_each(distance, window)
    assert demand.freshness is Freshness.MISSING
    assert f"samples are {distance} s apart" in demand.why
    longer, shorter = re.search(r"window to at least (\d+)s, or have .* scraped every (\d+) s", demand.why).groups()  # type: ignore[union-attr]
    assert scraped_each(distance, float(longer)).freshness is Freshness.FRESH
    assert scraped_each(float(shorter), window).freshness is Freshness.FRESH


def test_no_window_is_named_where_none_is_long_enough() -> None:
    demand = scraped_each(150, 3600)
    assert "samples are 150 s apart" in demand.why
    assert "have them scraped every 60 s" in demand.why
    assert "window to" not in demand.why
