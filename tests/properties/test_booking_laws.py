"""Laws of recorded terms: they only become stricter while counts stay, and a record says what its inputs would give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hetserve.api.inference_service import InferenceService
from hetserve.api.instance_type import InstanceType
from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import MicroDollarsPerHour, Millionths
from hetserve.planning.offers import Offer, Offers, resolve_offers
from hetserve.planning.plan import Plan
from hetserve.planning.tenancy import SharingRule
from hetserve.reconcile.plans.bookings import as_recorded, is_booked_right, recorded_gpus
from hetserve.reconcile.plans.plan_record import PlanRecord, plan_record, read_record
from testing.builders import instance_type, model_profile, service

TYPES = ("a", "b")
SERVICE = InferenceService.model_validate(service("rm2"))
KINDS = [InstanceType.model_validate(instance_type(name, {"spec.price.per": "GiB"})) for name in TYPES]
SHARES = st.fixed_dictionaries({name: st.sampled_from([None, "0.1", "0.3", "0.5", "1"]) for name in TYPES})
COUNTS = st.fixed_dictionaries({name: st.integers(0, 2) for name in TYPES}).filter(lambda counts: any(counts.values()))


def offers_of(shares: dict[str, str | None], undeclared: tuple[str, ...] = ()) -> tuple[Offer, ...]:
    profiles = []
    for name, share in shares.items():
        measured: dict[str, Any] = {} if share is None else {"spec.computeShare": share, "spec.sharingMode": "MPS"}
        raw = model_profile(name, {"spec.instanceType": name, "spec.gpuMemory": "2Gi", **measured})
        profiles.append(ModelProfile.model_validate(raw))
    offers = resolve_offers(SERVICE, KINDS, profiles, SharingRule(undeclared=undeclared))
    assert isinstance(offers, Offers)
    return offers.usable


def recorded(counts: dict[str, int], offers: tuple[Offer, ...], before: PlanRecord | None) -> PlanRecord:
    plan = Plan("PlanFeasible", "fits", "flow", tuple(counts.items()), MicroDollarsPerHour(1))
    return plan_record(plan, "inputs", recorded_gpus(plan.counts, offers, before))


def shares_of(record: PlanRecord) -> dict[str, int]:
    return {name: terms.share for name, terms in record.gpus.terms.items()}


@given(st.lists(st.tuples(COUNTS, SHARES), min_size=1, max_size=8), st.sets(st.sampled_from(TYPES)).map(tuple))
def test_a_share_is_the_greatest_measured_since_the_counts_changed(
    story: list[tuple[dict[str, int], dict[str, str | None]]], undeclared: tuple[str, ...]
) -> None:
    record: PlanRecord | None = None
    greatest: dict[str, int] = {}
    for counts, shares in story:
        offers = offers_of(shares, undeclared)
        now = {o.name: o.gpu.terms.share for o in offers if o.gpu is not None and o.gpu.terms and counts[o.name]}
        same = record is not None and record.nonzero == {name: n for name, n in counts.items() if n}
        greatest = {name: max(share, greatest.get(name, 0) if same else 0) for name, share in now.items()}
        record = recorded(counts, offers, record)
        assert shares_of(record) == greatest
        assert not record.gpus.booked
        assert record.gpus.exclusive == {n for n in TYPES if counts[n] and shares[n] is None and n not in undeclared}
        assert is_booked_right(record, offers)
        assert read_record({"status": {"plan": record.raw}}) == record
        rendered = as_recorded({offer.name: offer for offer in offers}, record)
        assert {n: o.gpu.terms.share for n, o in rendered.items() if o.gpu and o.gpu.terms and counts[n]} == greatest


@given(COUNTS, SHARES, st.sampled_from(TYPES), st.integers(1, 99))
def test_a_record_with_looser_terms_than_measured_is_not_right(
    counts: dict[str, int], shares: dict[str, str | None], name: str, less: int
) -> None:
    offers = offers_of(shares)
    record = recorded(counts, offers, None)
    terms = record.gpus.terms.get(name)
    if terms is not None:
        for looser in (
            replace(terms, share=Millionths(max(1, terms.share - less))),
            replace(terms, others=Millionths(terms.others - less)),
            replace(terms, tolerance=Millionths(terms.tolerance + less)),
        ):
            gpus = replace(record.gpus, terms={**record.gpus.terms, name: looser})
            assert not is_booked_right(replace(record, gpus=gpus), offers)
    if name in record.gpus.terms.keys() | record.gpus.exclusive:
        kept = {kind: each for kind, each in record.gpus.terms.items() if kind != name}
        absent = replace(record.gpus, terms=kept, exclusive=record.gpus.exclusive - {name})
        assert not is_booked_right(replace(record, gpus=absent), offers)
