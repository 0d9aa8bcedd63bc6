"""What Prometheus is asked, and how answers for all are taken apart by service."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from hetserve.base.units import Seconds
from hetserve.demand.answers import Series
from hetserve.demand.grouped import buckets_by_service, buckets_of, take_apart
from hetserve.demand.queries import (
    OwnQueries,
    Part,
    RangeQuery,
    group_of,
    group_queries,
    groups,
    mix_query,
    own_queries,
)
from hetserve.reconcile.cluster.observed import service_outline
from measured_demand import WANTED
from testing.builders import service as manifest

ADS = WANTED


def test_the_queries_of_a_group() -> None:
    (group,) = groups([ADS, replace(ADS, name="mail", slo=Seconds(2.0))])

    assert {part: query.promql for part, query in group_queries(group).items()} == {
        Part.RATE: 'sum by (namespace, service) (rate(hetserve_requests_total{outcome="received"}[60000ms]))',
        Part.SAMPLED_AT: 'max by (namespace, service) (timestamp(hetserve_requests_total{outcome="received"}))',
        Part.ENDED: 'sum by (namespace, service) (rate(hetserve_requests_total{outcome=~"served|dropped"}[60000ms]))',
        Part.IN_TIME: "sum by (namespace, service, le) "
        r'(rate(hetserve_request_duration_seconds_bucket{le=~"0\\.35|2\\.0|2"}[60000ms]))',
    }
    assert mix_query().promql == (
        "sum by (namespace, service, le) (increase(hetserve_request_batch_size_bucket[600000ms]))"
    )


def test_queries_grow_with_distinct_windows_and_not_with_services() -> None:
    many = [replace(ADS, name=f"s{k}", window=Seconds((60, 90, 300)[k % 3])) for k in range(1000)]

    found = groups(many)

    assert [float(group.window) for group in found] == [60, 90, 300]
    assert {len(group_queries(group)) for group in found} == {4}


def test_a_group_asks_for_the_longest_history_that_one_of_it_wants() -> None:
    (group,) = groups([ADS, replace(ADS, name="mail", down_window=Seconds(900.0), up_window=Seconds(90.0))])

    assert (float(group.span), float(group.attained_span)) == (945, 135)


def test_services_with_own_queries_are_in_no_group() -> None:
    assert groups([replace(ADS, own=OwnQueries("x"))]) == ()


@pytest.mark.parametrize(
    ("window", "step"), [(1, 0.25), (8, 2), (60, 15), (90, 22.5), (240, 60), (300, 60), (3600, 60), (1.0005, 0.251)]
)
def test_there_are_four_steps_in_a_window_and_one_a_minute(window: float, step: float) -> None:
    wanted = replace(ADS, window=Seconds(window))

    assert wanted.step == step
    assert wanted.steps * wanted.step >= window


SPANS = (0, 1, 60, 1800, 3600)


@pytest.mark.parametrize("window", [1, 1.001, 1.9, 2, 5, 8, 10, 60, 61, 3599.999, 3600])
@pytest.mark.parametrize("own", [None, OwnQueries("x", "y", "z")])
def test_no_query_asks_for_more_points_than_prometheus_answers(window: float, own: OwnQueries | None) -> None:
    for up, down, stale in product(SPANS, SPANS, SPANS):
        spans: dict[str, Any] = {"up_window": up, "down_window": down, "stale_after": max(stale, window)}
        wanted = replace(ADS, window=Seconds(window), own=own, **spans)
        queries = group_queries(group_of([wanted])) if own is None else own_queries(wanted, own)
        points = [query.points for query in queries.values() if isinstance(query, RangeQuery)]
        assert max(points) <= 11_000
        assert window <= wanted.steps * wanted.step < window + wanted.step
        assert wanted.step <= window / 2


def test_a_service_that_asks_for_coarser_samples_makes_those_of_others_no_coarser() -> None:
    short = replace(ADS, window=Seconds(1.0))
    found = groups([short, replace(short, name="long", down_window=Seconds(3600.0))])
    assert [(float(group.step), float(group.span)) for group in found] == [(0.25, 300.75), (0.361, 3601.083)]


def test_queries_can_be_about_some_services_alone() -> None:
    places = [("shop", "ads"), ("shop", "mail"), ("web", "ads")]
    some = r'namespace=~"shop|web",service=~"ads|mail"'
    assert {part: query.promql for part, query in group_queries(group_of([ADS]), places).items()} == {
        Part.RATE: f'sum by (namespace, service) (rate(hetserve_requests_total{{outcome="received",{some}}}[60000ms]))',
        Part.SAMPLED_AT: "max by (namespace, service) "
        f'(timestamp(hetserve_requests_total{{outcome="received",{some}}}))',
        Part.ENDED: "sum by (namespace, service) "
        f'(rate(hetserve_requests_total{{outcome=~"served|dropped",{some}}}[60000ms]))',
        Part.IN_TIME: "sum by (namespace, service, le) "
        rf'(rate(hetserve_request_duration_seconds_bucket{{le=~"0\\.35",{some}}}[60000ms]))',
    }
    assert f"hetserve_request_batch_size_bucket{{{some}}}[600000ms]" in mix_query(places).promql


@pytest.mark.parametrize("now", [1763899230.0, 1763899230.001, 1763899244.999, 29.0])
def test_moments_are_multiples_of_the_step_and_the_last_is_not_after_now(now: float) -> None:
    first, last = RangeQuery("up", Seconds(301.0), Seconds(15.0)).moments(now)

    assert last % 15 == first % 15 == 0
    assert now - 15 < last <= now
    assert first == last - 315


def test_stamps_reach_a_window_further_back_than_rates() -> None:
    (group,) = groups([replace(ADS, window=Seconds(100.0))])
    queries = group_queries(group)
    rate, stamps = queries[Part.RATE], queries[Part.SAMPLED_AT]
    assert isinstance(rate, RangeQuery)
    assert isinstance(stamps, RangeQuery)

    assert stamps.moments(1e6)[0] <= rate.moments(1e6)[0] - 100


def test_own_queries_are_asked_as_they_stand() -> None:
    own = OwnQueries("sum(rate(x[1m]))", "y", "z")

    queries = own_queries(replace(ADS, own=own), own)

    assert {part: query.promql for part, query in queries.items()} == {
        Part.RATE: "sum(rate(x[1m]))",
        Part.LATENCY: "y",
        Part.BATCH_SIZES: "z",
    }
    assert set(own_queries(ADS, OwnQueries("x"))) == {Part.RATE}


def test_what_a_service_wants_is_in_its_spec() -> None:
    raw = manifest("ads")
    raw["metadata"]["namespace"] = "shop"
    raw["spec"]["slo"] = {"latency": "350ms", "percentile": "99"}
    assert service_outline(raw).wanted is None
    raw["spec"] |= {"objective": "MinCost", "metrics": {"source": "Hetserve"}, "scaling": {}}
    assert service_outline(raw).wanted == ADS
    raw["spec"]["metrics"] = {"source": "Queries", "queries": {"rate": "x", "batchSizes": "y"}, "window": "10m"}
    wanted = service_outline(raw).wanted
    assert wanted is not None
    assert wanted.own == OwnQueries("x", None, "y")
    assert wanted.window == wanted.stale_after == Seconds(600.0)
    raw["spec"]["metrics"] = {"source": "Queries"}
    assert service_outline(raw).wanted is None, "nothing of an invalid service is acted upon"


# Answers for all services.

POINTS = [(0.0, 1.0)]


def series(value: float = 1.0, **labels: str) -> Series:
    return Series(labels, [(0.0, value)])


def test_series_without_a_service_concern_nobody_and_are_counted() -> None:
    found = [series(namespace="shop", service="ads"), series(namespace="shop"), series(service="ads"), series()]
    grouped = take_apart({Part.RATE: found, Part.SAMPLED_AT: found, Part.ENDED: [], Part.IN_TIME: []}, 7.0)

    ads = grouped.answered(ADS, None)
    assert ads.rate == found[:1]
    assert ads.sampled_at == POINTS
    mail = grouped.answered(replace(ADS, name="mail"), None)
    assert not mail.rate
    assert mail.hint == (
        "3 series of hetserve_requests_total lack the label namespace or service: the exporter's labels must survive "
        "the scrape (honorLabels: true)"
    )


def test_buckets_that_are_written_in_two_ways_are_one() -> None:
    ads = {"namespace": "shop", "service": "ads"}
    found = [series(2, **ads, le="2"), series(3, **ads, le="2.0"), series(9, **ads, le="+Inf"), series(1, **ads)]

    assert buckets_by_service(found) == {("shop", "ads"): {2.0: 5.0, math.inf: 9.0}}


def test_buckets_of_an_own_query_need_a_bound_each() -> None:
    assert buckets_of([series(2, le="1"), series(3, le="+Inf")]) == {1.0: 2.0, math.inf: 3.0}
    with pytest.raises(ValueError, match=r'series \{pod="a"\} has no label le with a number'):
        buckets_of([series(pod="a")])
    with pytest.raises(ValueError, match=r"several series have le=1; aggregate them by it"):
        buckets_of([series(le="1"), series(le="1.0")])
