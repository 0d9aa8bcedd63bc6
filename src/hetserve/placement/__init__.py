"""Which GPU a pod shares: inventory, ledger, worst fit with model anti-affinity, fair queues.

`Ledger` holds who has what, `decide` picks a GPU for a request over the ledger's index, `next_round` picks
which waiting pods come next, and `check.violations` proves a cluster without sharing code with any of them.
"""

from __future__ import annotations

from hetserve.placement.bookings import Booking, GpuUse, LedgerError, State
from hetserve.placement.decide import Candidate, Decision, Refusal, decide, scores
from hetserve.placement.inventory import Gpu, GpuKey, NodeInventory, parse_node
from hetserve.placement.ledger import Ledger
from hetserve.placement.placer import Outcome, Placer
from hetserve.placement.pods import GpuRequest, PodView, parse_pod
from hetserve.placement.queues import Fairness, QueueSettings, Round, Waiting, next_round
from hetserve.placement.sinks import NodeSink, PodSink

__all__ = [
    "Booking",
    "Candidate",
    "Decision",
    "Fairness",
    "Gpu",
    "GpuKey",
    "GpuRequest",
    "GpuUse",
    "Ledger",
    "LedgerError",
    "NodeInventory",
    "NodeSink",
    "Outcome",
    "Placer",
    "PodSink",
    "PodView",
    "QueueSettings",
    "Refusal",
    "Round",
    "State",
    "Waiting",
    "decide",
    "next_round",
    "parse_node",
    "parse_pod",
    "scores",
]
