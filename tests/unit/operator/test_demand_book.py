"""What the operator knows of loads between two answers, and whom it wakes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hetserve.base.units import QPS, Seconds
from hetserve.demand.mix import BatchMix
from hetserve.demand.observed import Demand, Freshness, RateSample, ShareSample, Trouble
from hetserve.demand.queries import MetricsQuerySpec, OwnQueries
from hetserve.demand.reading import unknown
from hetserve_operator.demand.cache import DemandCache, moved
from hetserve_operator.workqueue import Key
from measured_demand import WANTED

ADS, MAIL = Key("shop", "ads"), Key("shop", "mail")
OWN = replace(WANTED, own=OwnQueries("sum(x)"))


def fresh(qps: float = 100.0, before: float = 100.0, now: float = 10_000.0) -> Demand:
    """A rate for half an hour before a minute ago, and another since."""
    samples = [RateSample(now - 15 * k, QPS(qps if k < 4 else before)) for k in reversed(range(120))]
    return Demand(
        Freshness.FRESH, now=now, samples=tuple(samples), attained=tuple(ShareSample(s.at, 1.0) for s in samples)
    )


class Scene:
    def __init__(self, **options: bool) -> None:
        self.clock = 0.0
        self.woken: list[Key] = []
        self.shown: dict[Key, Demand | None] = {}
        self.book = DemandCache(
            lambda: self.clock,
            self.woken.append,
            configured=options.get("configured", True),
            allow_queries=options.get("allow_queries", True),
            show=self.shown.__setitem__,
        )
        self.book.follow({ADS: WANTED})

    def take(self, demand: Demand) -> list[Key]:
        """Whom an answer wakes."""
        self.book.take(ADS, WANTED, demand, self.clock)
        return self.tick()

    def tick(self) -> list[Key]:
        self.woken.clear()
        assert list(self.book.tick()) == list(self.shown)
        return list(self.woken)

    def demand(self, wanted: MetricsQuerySpec = WANTED) -> Demand:
        found = self.book.demand(ADS, wanted)
        assert found is not None
        return found


def test_demand_ages_by_the_monotonic_clock_while_there_is_no_answer() -> None:
    scene = Scene()
    scene.take(fresh())
    for clock, freshness in ((0.0, "Fresh"), (120.0, "Fresh"), (120.5, "Stale"), (9999.0, "Stale")):
        scene.clock = clock
        assert scene.demand().freshness == Freshness(freshness)
        assert scene.demand().age == Seconds(clock)
    assert scene.demand().samples == fresh().samples


def test_a_clock_that_jumps_back_makes_nothing_younger() -> None:
    scene = Scene()
    scene.clock = 50.0
    scene.take(fresh())
    scene.clock = 0.0

    assert scene.demand().age == 0.0


def test_without_an_answer_a_service_waits_and_is_told_why() -> None:
    scene = Scene()
    assert (scene.demand().freshness, scene.demand().trouble) == (Freshness.MISSING, Trouble.NOT_ASKED)

    scene.book.fail(ADS, "Prometheus: HTTP 500: no")

    assert (scene.demand().freshness, scene.demand().trouble) == (Freshness.MISSING, Trouble.UNREACHABLE)
    assert scene.demand().why == "Prometheus has not been asked yet; Prometheus: HTTP 500: no"


def test_an_answer_ends_a_failure() -> None:
    scene = Scene()
    scene.book.fail(ADS, "away")
    scene.take(fresh())
    scene.clock = 130.0

    assert scene.demand().trouble is None


def test_a_service_without_metrics_has_no_demand() -> None:
    assert Scene().book.demand(ADS, None) is None


@pytest.mark.parametrize(
    ("options", "wanted", "trouble"),
    [
        ({"configured": False}, WANTED, Trouble.NOT_CONFIGURED),
        ({"allow_queries": False}, OWN, Trouble.QUERIES_NOT_ALLOWED),
        ({"configured": False, "allow_queries": False}, OWN, Trouble.NOT_CONFIGURED),
    ],
)
def test_what_the_installation_does_not_do_is_said_and_not_asked(
    options: dict[str, bool], wanted: MetricsQuerySpec, trouble: Trouble
) -> None:
    scene = Scene(**options)
    scene.book.follow({ADS: wanted})

    assert (scene.demand(wanted).freshness, scene.demand(wanted).trouble) == (Freshness.MISSING, trouble)
    assert scene.book.to_ask(own=wanted.own is not None) == {}


def test_services_are_asked_for_by_their_source() -> None:
    book = Scene().book
    book.follow({ADS: WANTED, MAIL: OWN})

    assert book.to_ask(own=False) == {ADS: WANTED}
    assert book.to_ask(own=True) == {MAIL: OWN}


@pytest.mark.parametrize("edited", [OWN, replace(WANTED, window=Seconds(300.0))])
def test_an_answer_to_another_question_does_not_count(edited: MetricsQuerySpec) -> None:
    scene = Scene()
    scene.take(fresh())
    assert scene.demand(edited).trouble is Trouble.NOT_ASKED, "the cache has not seen the edit yet"

    scene.book.follow({ADS: edited})
    scene.book.take(ADS, WANTED, fresh(), 0.0)

    assert scene.demand(edited).trouble is Trouble.NOT_ASKED


def test_another_slo_leaves_the_rates_and_drops_the_attainment() -> None:
    scene = Scene()
    scene.take(fresh())
    edited = replace(WANTED, slo=Seconds(0.5))
    scene.book.follow({ADS: edited})

    assert scene.demand(edited).samples == fresh().samples
    assert scene.demand(edited).attained == ()


def test_a_service_that_is_gone_is_forgotten() -> None:
    scene = Scene()
    scene.take(fresh())
    scene.book.follow({})

    assert scene.shown[ADS] is None
    assert list(scene.book.tick()) == []
    scene.book.take(ADS, WANTED, fresh(), 0.0)
    scene.book.fail(ADS, "away")
    assert scene.demand().trouble is Trouble.NOT_ASKED


# Whom an answer wakes.


def test_a_first_answer_wakes_and_the_same_again_does_not() -> None:
    scene = Scene()

    assert scene.take(fresh()) == [ADS]
    assert scene.take(fresh()) == []
    assert scene.tick() == []


def test_a_move_of_a_percent_wakes_and_a_smaller_one_does_not() -> None:
    scene = Scene()
    scene.take(fresh())

    assert scene.take(fresh(100.9, 100.9)) == []
    assert scene.take(fresh(101.8, 101.8)) == [ADS], "small moves add up: compared is what was last looked at"


def test_a_peak_that_leaves_the_window_wakes() -> None:
    scene = Scene()
    peak = replace(fresh(), samples=tuple(replace(s, qps=QPS(900)) if s.at == 9_715 else s for s in fresh().samples))
    scene.take(peak)

    assert scene.take(replace(peak, now=10_015.0 + 30)) == [ADS]


def in_time(*newest: float, before: float = 0.995) -> Demand:
    """A steady rate of many queries; shares in time of the newest samples."""
    demand = fresh()
    shares = [before] * (len(demand.samples) - len(newest)) + list(newest)
    attained = [ShareSample(s.at, share, 50_000.0) for s, share in zip(demand.samples, shares, strict=True)]
    return replace(demand, attained=tuple(attained))


def test_a_slo_that_is_missed_throughout_its_window_wakes_however_little_the_figures_move() -> None:
    scene = Scene()
    scene.take(in_time(0.986))

    assert scene.take(in_time(0.986, 0.986)) == []
    assert scene.take(in_time(0.986, 0.986, 0.986, 0.986)) == [ADS], "nobody sees that the SLO is missed"
    assert scene.take(in_time(0.986, 0.986, 0.986, 0.986, 0.986)) == []
    assert scene.take(in_time(0.986, 0.986, 0.986, 0.995)) == [ADS], "nobody sees that it is kept again"


def test_a_newest_sample_that_is_late_no_more_wakes_a_service_that_may_shrink() -> None:
    """Of 99 %, with so many queries that 98.8 % are no chance: what could go stays until the newest are in time."""
    quiet, woken = [False], list[Key]()
    book = DemandCache(lambda: 0.0, woken.append, configured=True, is_quiet=lambda _key, _demand: quiet[0])
    book.follow({ADS: WANTED})
    for newest, is_quiet, expected in (
        ([], False, [ADS]),
        ([0.988], False, [ADS]),
        ([0.988, 0.9915], False, [ADS]),
        ([0.988, 0.9915, 0.9915], False, []),
        ([0.9915, 0.9915, 0.988], True, []),
    ):
        woken.clear()
        quiet[0] = is_quiet
        book.take(ADS, WANTED, in_time(*newest), 0.0)
        list(book.tick())
        assert woken == expected, newest


def test_what_a_look_saw_is_what_later_figures_are_compared_to() -> None:
    """A look that something else asked for, at a load at which nobody was woken, may have decided otherwise."""
    quiet, woken = [True], list[Key]()
    book = DemandCache(lambda: 0.0, woken.append, configured=True, is_quiet=lambda _key, _demand: quiet[0])
    book.follow({ADS: WANTED})
    for qps in (100.0, 103.0):
        book.take(ADS, WANTED, fresh(qps, qps), 0.0)
        list(book.tick())
    book.demand(ADS, WANTED)
    quiet[0] = False
    woken.clear()

    book.take(ADS, WANTED, fresh(100.2, 100.2), 0.0)
    list(book.tick())
    assert woken == [ADS]


def test_leaving_the_loads_at_which_a_decision_stays_wakes_however_little_it_takes() -> None:
    woken = list[Key]()
    book = DemandCache(
        lambda: 0.0, woken.append, configured=True, is_quiet=lambda _key, demand: demand.samples[-1].qps <= 100.2
    )
    book.follow({ADS: WANTED})
    for qps, expected in ((100.0, [ADS]), (100.1, []), (100.4, [ADS]), (100.5, [])):
        woken.clear()
        book.take(ADS, WANTED, fresh(qps, qps), 0.0)
        list(book.tick())
        assert woken == expected, qps


def test_becoming_stale_wakes_without_an_answer() -> None:
    scene = Scene()
    scene.take(fresh())
    scene.clock = 46.0
    assert scene.tick() == [ADS], "the windows are not known any more"
    scene.clock = 120.0
    assert scene.tick() == []
    scene.clock = 120.1
    assert scene.tick() == [ADS]
    assert scene.tick() == []


def test_another_trouble_and_another_mix_wake() -> None:
    scene = Scene()
    scene.take(fresh())
    mixed = replace(fresh(), mix=BatchMix.of([(1, 1), (8, 1)]))

    assert scene.take(mixed) == [ADS]
    assert scene.take(replace(mixed, mix=BatchMix.of([(1, 1.001), (8, 1)]))) == []
    assert scene.take(replace(mixed, mix=BatchMix.of([(1, 1.1), (8, 1)]))) == [ADS]
    assert scene.take(replace(mixed, mix=BatchMix.of([(1, 1.1), (9, 1)]))) == [ADS]
    assert scene.take(unknown(Trouble.QUERY_REFUSED, "no")) == [ADS]
    assert scene.take(replace(fresh(), attained=())) == [ADS]


def test_figures_at_which_a_decision_stays_wake_nobody_and_a_new_state_does() -> None:
    quiet, woken = [True], list[Key]()
    book = DemandCache(lambda: 0.0, woken.append, configured=True, is_quiet=lambda _key, _demand: quiet[0])

    def take(demand: Demand) -> list[Key]:
        woken.clear()
        book.follow({ADS: WANTED})
        book.take(ADS, WANTED, demand, 0.0)
        list(book.tick())
        return list(woken)

    assert take(fresh()) == [ADS], "nothing was known before"
    more = replace(fresh(), samples=tuple(replace(one, qps=QPS(2 * one.qps + 1)) for one in fresh().samples))
    assert take(more) == []
    quiet[0] = False
    assert take(more) == [ADS]
    quiet[0] = True
    assert take(unknown(Trouble.QUERY_REFUSED, "no")) == [ADS]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(0, 0, False), (0, 1e-9, True), (None, None, False), (None, 0, True), (0, None, True), (100, 101, False)],
)
def test_what_a_move_is(before: float | None, after: float | None, expected: bool) -> None:
    assert moved(before, after) is expected
