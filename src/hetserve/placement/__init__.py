"""Which GPUs a pod gets: `Ledger` holds bookings, `decide` picks GPUs, `next_round` picks waiting pods."""

from __future__ import annotations

from hetserve.placement.decision.decide import FreeGpu, GpuOffer, PlacementDecision, decide, feasible, scores
from hetserve.placement.decision.refusals import NodeRefusal
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler, ResourceSliceEventHandler
from hetserve.placement.ledger.bookings import Booking, GpuUse, LedgerError, State
from hetserve.placement.ledger.inventory import Gpu, GpuKey, NodeInventory, parse_node
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.placer import FilterOutcome, Mode, Placer
from hetserve.placement.pods.requests import (
    DEFAULT_POLICY,
    AntiAffinity,
    GpuRequest,
    GpuSelector,
    PolicyName,
    policy_name,
)
from hetserve.placement.pods.view import PodView, parse_pod
from hetserve.placement.queues.rounds import Fairness, QueueSettings, Round, Waiting, next_round

__all__ = [
    "DEFAULT_POLICY",
    "AntiAffinity",
    "Booking",
    "Fairness",
    "FilterOutcome",
    "FreeGpu",
    "Gpu",
    "GpuKey",
    "GpuOffer",
    "GpuRequest",
    "GpuSelector",
    "GpuUse",
    "Ledger",
    "LedgerError",
    "Mode",
    "NodeEventHandler",
    "NodeInventory",
    "NodeRefusal",
    "PlacementDecision",
    "Placer",
    "PodEventHandler",
    "PodView",
    "PolicyName",
    "QueueSettings",
    "ResourceSliceEventHandler",
    "Round",
    "State",
    "Waiting",
    "decide",
    "feasible",
    "next_round",
    "parse_node",
    "parse_pod",
    "policy_name",
    "scores",
]
