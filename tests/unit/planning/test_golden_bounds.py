"""The bound on the artifact's own rates: figures that were computed elsewhere."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hetserve.base.units import QPS, format_money
from hetserve.demand import kairos_mixture
from hetserve.planning import plan
from hetserve.planning.configurations import Dimension, Ints, enumerate_configurations
from hetserve.planning.kairos.planner import pick_by_similarity
from hetserve.planning.kairos.ranking import configuration_bounds, entries
from hetserve.planning.kbest.best import list_all, space_of
from hetserve.planning.rates import Auxiliary, Rates
from testing.data import REPOSITORY, reference_data
from testing.kairos_bound import base_rate_for_large, closed_bound, paper_bound
from testing.planning import kairos_types, option, problem, table

GOLDEN: dict[str, Any] = json.loads(
    (REPOSITORY / "tests" / "golden" / "planning" / "kairos_top_bounds.json").read_text(encoding="utf-8")
)
BUDGET = 2_500_000
TYPES = {option.name: option for option in kairos_types()}


def stored_rates(path: Path, model: str) -> Rates:
    """Rates as the artifact's allocator profile stores them; a rate it does not need (s below a type's own) is 0."""
    with path.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == model]
    q_base = float(next(row["qps"] for row in rows if row["instance"] == "g4dn.xlarge"))
    at = {(row["instance"], int(row["at_batch"])): float(row["qps"]) for row in rows}
    auxiliaries = []
    for name in GOLDEN["order"][1:]:
        own = next(row for row in rows if row["instance"] == name)
        limit, f, t = int(own["qos_batch"]), float(own["small_ratio"]), float(own["time_ratio"])
        auxiliaries.append(Auxiliary(TYPES[name], (limit,), (limit,), f, t))
    q_aux = tuple(
        tuple(QPS(at.get((aux.option.name, leader.limit), 0.0)) for aux in auxiliaries) for leader in auxiliaries
    )
    return Rates(TYPES["g4dn.xlarge"], QPS(q_base), tuple(auxiliaries), q_aux)


def in_budget(rates: Rates) -> tuple[Ints, Ints]:
    base = Dimension(rates.base.price, 1)
    return enumerate_configurations((base, *(Dimension(aux.option.price) for aux in rates.auxiliaries)), BUDGET)


@pytest.mark.data
@pytest.mark.parametrize("model", ["NCF", "RM2"])
def test_the_three_best_bounds_are_those_of_the_artifact(model: str) -> None:
    rates = stored_rates(reference_data("kairos/allocator_profile.csv"), model)
    ranked = tuple(entries(rates, list_all(space_of(rates, BUDGET), 10)))
    for entry, (expected_counts, expected_bound) in zip(ranked, GOLDEN[model], strict=False):
        assert entry.counts == tuple(expected_counts)
        assert entry.bound == pytest.approx(expected_bound, abs=0.005)
    pick, rule = pick_by_similarity(ranked)
    assert pick == 0
    assert rule.startswith("top-3 rule")


@pytest.mark.data
@pytest.mark.parametrize("model", ["NCF", "RM2", "WND", "MT-WND", "DIEN"])
def test_printed_and_closed_form_agree_on_all_331_configurations(model: str) -> None:
    rates = stored_rates(reference_data("kairos/allocator_profile.csv"), model)
    counts, _ = in_budget(rates)
    assert len(counts) == 331
    vectorised = configuration_bounds(rates, counts)
    for row, bound in zip(counts, vectorised, strict=True):
        present = [i for i, count in enumerate(row[1:]) if count]
        f = max((rates.auxiliaries[i].f for i in present), default=0.0)
        t = max((rates.auxiliaries[i].t for i in present), default=0.0)
        leader = max(present, key=lambda i: rates.auxiliaries[i].limit, default=0)
        aux_rate = sum(float(rates.q_aux[leader][i]) * int(row[1 + i]) for i in present)
        u, q_base = int(row[0]), float(rates.q_base)
        printed = paper_bound(u, q_base, base_rate_for_large(q_base, f, t), aux_rate, f)
        assert printed == pytest.approx(bound, rel=1e-9), f"{row}: printed form {printed}, vectorised {bound}"
        assert closed_bound(u, q_base, aux_rate, f, t) == pytest.approx(bound, rel=1e-12)


@pytest.mark.data
def test_the_measured_table_of_rm2_gives_143_4_and_the_same_plan_as_its_fitted_lines() -> None:
    with reference_data("kairos/latency.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["model"] == "RM2"]
    measured = [
        option(
            name,
            format_money(TYPES[name].price),
            table({int(r["batch"]): float(r["latency_ms"]) for r in rows if r["instance"] == name}),
        )
        for name in GOLDEN["order"]
    ]
    made = plan(problem(measured, mix=kairos_mixture()), "kairos")
    assert made.bound_qps == pytest.approx(143.4, abs=0.05)
    assert made.counts == plan(problem(kairos_types(), mix=kairos_mixture()), "kairos").counts
    bounds = [entry.qps for entry in made.ranking]
    assert np.allclose(bounds, [143.4, 138.2, 133.6, 132.9, 128.3, 124.2, 123.7, 123.0, 119.0, 118.9], atol=0.05)
