"""Variants of a model in services and profiles: which one instances serve, and what does not fit together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve.api.inference_service import InferenceService
from hetserve.api.model_profile import ModelProfile
from hetserve.api.service.variants import ModelRef
from hetserve.planning.tenancy import SharingRule
from hetserve.profiles import profile_from_spec
from hetserve.profiles.variants import as_served, mismatch, served_variants, variant_profiles
from hetserve_services.facts import facts_of, threshold_batches
from testing import builders


def model(*variants: tuple[str, str] | tuple[str, str, str]) -> ModelRef:
    """Variants by name, accuracy and, optionally, utility."""
    fields = ("name", "accuracy", "utility")
    listed = [dict(zip(fields, one, strict=False)) for one in variants]
    return ModelRef.model_validate({"name": "m", "variants": listed or None})


def line(name: str, intercept: str, slope: str = "1ms", **more: Any) -> dict[str, Any]:
    return {"name": name, "latency": {"linear": {"intercept": intercept, "slope": slope}}, **more}


def profile(*variants: dict[str, Any], **spec: Any) -> ModelProfile:
    overrides = {"spec.latency": builders.REMOVED, "spec.variants": list(variants), **spec} if variants else spec
    return ModelProfile.model_validate(builders.model_profile("m-on-a", overrides))


def served(of: ModelRef, found: ModelProfile) -> list[str]:
    return served_variants([as_served(of, found)])


TWO = (line("tiny", "1ms"), line("full", "5ms"))
NAMED = (("tiny", "73.82"), ("full", "80.16"))


def test_the_most_accurate_variant_is_served_with_its_own_latency() -> None:
    alone = as_served(model(*NAMED), profile(*TWO)).spec
    assert served(model(*NAMED), profile(*TWO)) == ["full"]
    assert profile_from_spec(alone).mean(1) == pytest.approx(0.006)


def test_accuracies_are_compared_as_numbers() -> None:
    assert served(model(("tiny", "9.9"), ("full", "80")), profile(*TWO)) == ["full"]
    assert served(model(("tiny", "80.0"), ("full", "80")), profile(*TWO)) == ["tiny"], "equal: the faster one"


def test_of_equal_accuracy_utility_counts_before_speed() -> None:
    assert served(model(("tiny", "80", "0.5"), ("full", "80", "1")), profile(*TWO)) == ["full"]


def test_a_variant_without_a_utility_is_worth_its_accuracy() -> None:
    found = model(("tiny", "73.82"), ("full", "80.16", "1")).variants or ()
    assert [one.utility_or_default for one in found] == [0.7382, 1.0]


def test_a_model_without_variants_is_served_as_it_is_profiled() -> None:
    plain = profile()
    assert as_served(model(), plain) is plain
    assert list(variant_profiles(model(), plain.spec)) == [""]
    assert served_variants([plain]) == []


def test_variants_that_the_service_does_not_name_are_not_used() -> None:
    only = model(("tiny", "73.82"))
    assert not mismatch(only, profile(*TWO))
    assert served(only, profile(*TWO)) == ["tiny"]
    assert list(variant_profiles(only, profile(*TWO).spec)) == ["tiny"]


def test_latencies_come_in_the_order_of_the_service() -> None:
    found = variant_profiles(model(*reversed(NAMED)), profile(*TWO).spec)
    assert [(name, curve.mean(1)) for name, curve in found.items()] == [("full", 0.006), ("tiny", 0.002)]


MISMATCHES = {
    "a variant without a latency": (
        model(*NAMED, ("huge", "90")),
        profile(*TWO),
        "ModelProfile m-on-a has no latency of variant huge of spec.model.variants; it has tiny, full: add it, or take "
        "it out of the service",
    ),
    "several without one": (model(("a", "1"), ("b", "2")), profile(*TWO), "no latency of variants a, b of"),
    "variants that the service does not declare": (
        model(),
        profile(*TWO),
        "has variants tiny, full: name them in spec.model.variants, with their accuracy",
    ),
    "a profile without variants": (
        model(*NAMED),
        profile(),
        "has no spec.variants, with a latency of each of tiny, full",
    ),
}


@pytest.mark.parametrize(("declared", "found", "words"), MISMATCHES.values(), ids=MISMATCHES)
def test_what_does_not_fit_is_named(declared: ModelRef, found: ModelProfile, words: str) -> None:
    assert words in mismatch(declared, found)


def test_a_profile_of_several_variants_has_no_one_latency() -> None:
    with pytest.raises(ValueError, match="several variants, and none is chosen: tiny, full"):
        profile_from_spec(profile(*TWO).spec)


def test_an_odd_table_of_a_variant_is_named_with_it() -> None:
    table = [{"batch": 1, "mean": "9ms"}, {"batch": 8, "mean": "1ms"}]
    odd = profile(line("tiny", "1ms"), {"name": "full", "latency": {"table": table}})
    assert odd.spec.warning.startswith("variant full: batch 1 takes longer")


def test_router_and_twin_get_profiles_as_they_are_served_and_none_that_lacks_a_variant() -> None:
    service = InferenceService.model_validate(
        builders.service("m", {"spec.model.variants": [{"name": "full", "accuracy": "80"}]})
    )
    of_m = {"spec.model": "m", "spec.maxBatch": builders.REMOVED}
    table = {"table": [{"batch": 3, "mean": "5ms"}, {"batch": 7, "mean": "9ms"}]}
    good = profile({"name": "full", "latency": table, "maxBatch": 5}, line("tiny", "1ms", maxBatch=64), **of_m)
    facts = facts_of(service, [good, profile(**of_m, **{"spec.instanceType": "b"})], {}, SharingRule())
    assert list(facts.profiles) == ["g4dn.xlarge"]
    assert served_variants(list(facts.profiles.values())) == ["full"]
    assert threshold_batches(facts) == {3, 5, 7, 100, 500}


@given(
    rows=st.lists(
        st.tuples(st.sampled_from(["70", "80", "80.0"]), st.sampled_from(["1ms", "2ms"]), st.sampled_from([1, 4])),
        min_size=1,
        max_size=5,
    ),
    data=st.data(),
)
def test_names_and_order_change_nothing(rows: list[tuple[str, str, int]], data: st.DataObject) -> None:
    def best(order: list[int], names: list[str]) -> Any:
        found = profile(*(line(names[k], rows[k][1], maxBatch=rows[k][2]) for k in order))
        alone = as_served(model(*((names[k], rows[k][0]) for k in reversed(order))), found)
        return profile_from_spec(alone.spec)

    names = [f"v{k}" for k in range(len(rows))]
    order = data.draw(st.permutations(range(len(rows))))
    assert best(list(range(len(rows))), names) == best(list(order), data.draw(st.permutations(names)))
