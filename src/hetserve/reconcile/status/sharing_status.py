"""What a service's status says of GPUs that its instances share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hetserve.api.conditions import Reason
from hetserve.planning.offers import Offer
from hetserve.planning.tenancy import Tenancy
from hetserve.reconcile.cluster.neighbours import CrowdedGpu
from hetserve.reconcile.plans.plan_decision import NOT_PLANNED, Finding, PlanDecision

PAGE: Final = "docs/how-to-measure-sharing.md"
_MOST_NAMED: Final = 5


def sharing_kept(crowded: Sequence[CrowdedGpu]) -> Finding:
    """SharingKept. crowded: GPUs on which nothing bounds the slow-down of the service's instances."""
    if not crowded:
        return Finding("True", Reason.WITHIN_BOOKINGS, "no instance shares a GPU with more than the bookings allow")
    undeclared = any(gpu.undeclared for gpu in crowded)
    return Finding(
        "False",
        Reason.UNDECLARED_NEIGHBOUR if undeclared else Reason.OVER_BOOKED,
        f"instances are not promised their SLO on {_few([str(gpu) for gpu in crowded], '; ')}",
    )


def sharing_unmeasured(decision: PlanDecision) -> Finding:
    """SharingUnmeasured: what instances of the plan have for lack of a measurement."""
    if decision.record is None or decision.service is None or not decision.offers:
        return NOT_PLANNED
    planned = [offer for name, offer in sorted(decision.offers.items()) if name in decision.counts]
    undeclared = _unmeasured(planned, Tenancy.UNDECLARED)
    if undeclared:
        words = f"ModelProfile {undeclared}: no computeShare, so instances declare no compute and keep their templates"
        return Finding("True", Reason.INSTANCES_UNDECLARED, f"{words} until it is measured ({PAGE})")
    kept = _unmeasured(planned, Tenancy.SHARED)
    if kept:
        words = f"ModelProfile {kept}: no computeShare any more, so instances keep their bookings and their templates"
        return Finding("True", Reason.BOOKINGS_KEPT, f"{words} until it is measured ({PAGE})")
    alone = _unmeasured(planned, Tenancy.EXCLUSIVE)
    if alone and decision.service.spec.sharing == "Shared":
        words = f"ModelProfile {alone}: no computeShare, so each instance is planned with a whole GPU"
        return Finding("True", Reason.PLANNED_EXCLUSIVE, f"{words} until it is measured ({PAGE})")
    return Finding("False", Reason.SHARING_MEASURED, "no instance waits for a measurement of what it shares")


def _unmeasured(offers: Sequence[Offer], tenancy: Tenancy) -> str:
    """Profiles without a share, of types whose instances have their GPUs so."""
    alike = [offer for offer in offers if offer.gpu is not None and offer.gpu.tenancy is tenancy]
    return _few([offer.profile.metadata.name for offer in alike if offer.profile.spec.compute_share is None], ", ")


def _few(words: Sequence[str], joint: str) -> str:
    more = f"{joint}{len(words) - _MOST_NAMED} more" if len(words) > _MOST_NAMED else ""
    return joint.join(words[:_MOST_NAMED]) + more
