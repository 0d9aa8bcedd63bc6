"""Which changes of the cluster concern a service, so that a change wakes nobody whose decision stays the same."""

from __future__ import annotations

from collections import Counter
from typing import Final

from hetserve.reconcile.deployments.ownership import type_of
from hetserve.reconcile.plans.plan_decision import PlanDecision
from hetserve.reconcile.snapshot import Interest, ServiceSnapshot

NO_INTEREST: Final = Interest(frozenset(), frozenset())
WAITS: Final = Interest(frozenset())
"""Of a service that waits for its plan: room is counted when the plan is there."""


def interest_of(decision: PlanDecision, snapshot: ServiceSnapshot) -> Interest:
    """Interest of a service after a decision.

    Room counts for nothing while the recorded plan is the ideal one, or carries the load that it follows, or stays for
    want of samples, and its instances are all on nodes: it fits then, whatever the rest of the cluster holds. A service
    that cannot be planned reads all types, since its message names them.
    """
    following = decision.following
    stays = following is not None and (following.dead_band is not None or following.stays)
    content = (decision.ideal or stays) and _all_bound(decision, snapshot)
    room = frozenset() if content else frozenset(decision.offers)
    growing = following is not None and following.growing
    if decision.planned.status != "True":
        return Interest(room, growing=growing)
    held = (
        {pod.instance_type for pod in snapshot.pods} | set(map(type_of, snapshot.deployments)) | decision.counts.keys()
    )
    dead_band = None if following is None else following.dead_band
    return Interest(room, frozenset(filter(None, held)), dead_band, growing)


def _all_bound(decision: PlanDecision, snapshot: ServiceSnapshot) -> bool:
    bound = Counter(pod.instance_type for pod in snapshot.pods if pod.node is not None and not pod.terminating)
    return all(bound[name] >= count for name, count in decision.counts.items())
