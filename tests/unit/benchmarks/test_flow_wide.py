"""The second family of `make bench-flow`: reproducible, valid, as wide as announced, and its section."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.flow.parts import wide as part
from benchmarks.flow.wide import LOADS, wide_pools

from hetserve.base.humps import humps
from hetserve.planning.rates import throughput
from hetserve.planning.validate import problem_error
from hetserve.profiles import TableProfile

POOLS = wide_pools(60)


def test_a_problem_depends_on_its_number_and_the_seed_not_on_how_many_are_drawn() -> None:
    assert wide_pools(5) == POOLS[:5]
    assert not {given for given, _ in wide_pools(5, seed=1)} & {given for given, _ in POOLS}


def test_every_problem_is_valid_and_its_loads_rise() -> None:
    for given, loads in POOLS:
        assert problem_error(given) is None
        assert len(loads) == LOADS
        assert all(low <= high for low, high in pairwise(loads))


def test_the_family_is_as_wide_as_announced() -> None:
    types = [option for given, _ in POOLS for option in given.types]
    speeds = [[throughput(o.profile, given.mix) or 1.0 for o in given.types] for given, _ in POOLS]
    assert max(max(rates) / min(rates) for rates in speeds) > 1e3
    assert max(max(o.price for o in given.types) / min(o.price for o in given.types) for given, _ in POOLS) > 1e3
    assert {len(given.types) for given, _ in POOLS} >= {1, 12}
    assert min(min(given.mix.shares) for given, _ in POOLS) < 1e-9
    assert any(isinstance(o.profile, TableProfile) and humps(o.profile.batches, o.profile.means) for o in types)
    assert any(o.min_instances for o in types)
    assert any(o.max_instances for o in types)


def test_the_section_counts_what_breaks_each_law() -> None:
    broken = [{"law": "never fails", "planner": "flow", "words": "it did"}]
    text = part.describe({"rows": [{"name": "wide-0", "broken": broken}, {"name": "wide-1", "broken": []}]})
    assert "| plans that break the law: never fails | 0 | 1 | **missed** |" in text
    assert "| plans that break the law: cost never falls | 0 | 0 | held |" in text
    assert "- wide-0, flow, never fails: it did" in text
