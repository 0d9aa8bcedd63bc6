"""Which GPUs a pod gets: inventory, ledger, policies with model anti-affinity, fair queues.

`Ledger` holds who has what, `decide` picks GPUs for a request over the ledger's index, `next_round` picks
which waiting pods come next, and `check.violations` proves a cluster without sharing code with any of them.
"""

from __future__ import annotations

from hetserve.placement.bookings import Booking, GpuUse, LedgerError, State
from hetserve.placement.decide import Candidate, Decision, FreeGpu, Refusal, decide, feasible, scores
from hetserve.placement.inventory import Gpu, GpuKey, NodeInventory, parse_node
from hetserve.placement.ledger import Ledger
from hetserve.placement.placer import Mode, Outcome, Placer
from hetserve.placement.pods import PodView, parse_pod
from hetserve.placement.queues import Fairness, QueueSettings, Round, Waiting, next_round
from hetserve.placement.requests import AntiAffinity, GpuRequest, GpuSelector, PolicyName
from hetserve.placement.sinks import NodeSink, PodSink

__all__ = [
    "AntiAffinity",
    "Booking",
    "Candidate",
    "Decision",
    "Fairness",
    "FreeGpu",
    "Gpu",
    "GpuKey",
    "GpuRequest",
    "GpuSelector",
    "GpuUse",
    "Ledger",
    "LedgerError",
    "Mode",
    "NodeInventory",
    "NodeSink",
    "Outcome",
    "Placer",
    "PodSink",
    "PodView",
    "PolicyName",
    "QueueSettings",
    "Refusal",
    "Round",
    "State",
    "Waiting",
    "decide",
    "feasible",
    "next_round",
    "parse_node",
    "parse_pod",
    "scores",
]
