"""Order in which GPUs that fit are preferred: a rank per GPU for a request, the higher the better.

Ranks are 0 to 2^62 for GPUs that fit, packed from the most to the least important field; ties go by row.
"""

from __future__ import annotations

from functools import cache
from typing import Final, Protocol, cast

import numpy as np

from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.ledger.index import GpuIndex, Numbers
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.registry.placement_policies import PLACEMENT_POLICIES, PlacementMember

MEMORY_BITS: Final = 28
"""Width of a field of MiB: the largest GPU has 2^27."""
_ONE: Final = 1 << MEMORY_BITS
"""Least value above a field of MiB."""
_SHARE_BITS: Final = 32
"""A share is a whole number of parts of 2^32, rounded down: 2^27 MiB shifted so stay within 63 bits."""
_NODE_BITS: Final = 18
_NODE_MOST: Final = (1 << _NODE_BITS) - 1
_GPU_MOST: Final = (1 << 16) - 1
"""Counts above are equal; a kubelet runs some hundred pods."""


class Rank(Protocol):
    def __call__(self, index: GpuIndex, request: GpuRequest, /) -> Numbers: ...


def rank_of(policy: PolicyName) -> Rank:
    return _loaded(PLACEMENT_POLICIES[policy])


@cache
def _loaded(member: PlacementMember) -> Rank:
    return cast("Rank", member.load())


def worst_fit(index: GpuIndex, _request: GpuRequest, /) -> Numbers:
    """HetSev's rule (Algorithm 1): idle GPUs first, then the most free memory."""
    ranks: Numbers = index.idle * _ONE + index.free
    return ranks


def packed_worst_fit(index: GpuIndex, request: GpuRequest, /) -> Numbers:
    """Of pods on terms, shared GPUs first, as worst fit of bin packing opens the next bin; others by HetSev's rule.

    Then the most free memory. A pod that says nothing of its neighbours gets idle GPUs as long as there are any.
    """
    first = index.idle if request.sharing is None else ~index.idle
    ranks: Numbers = first * _ONE + index.free
    return ranks


def dominant_worst_fit(index: GpuIndex, request: GpuRequest, /) -> Numbers:
    """Worst fit by the scarcer resource: the GPU whose scarcer share left, of memory or compute, is largest after it.

    One minus that share is the GPU's dominant share (Ghodsi and others, "Dominant Resource Fairness", NSDI 2011). Ties:
    the most free memory. Where nobody declares compute, memory alone counts, as a share of the GPU's. Of pods on terms
    it is what is left of their tolerance without the newcomer, less what that takes alone, or nothing.
    """
    memory = ((index.free - request.memory_mib) << _SHARE_BITS) // index.memory
    left = index.free_compute - request.least_compute
    compute = ((left if request.sharing is None else np.maximum(left, 0)) << _SHARE_BITS) // WHOLE_COMPUTE
    ranks: Numbers = (np.minimum(memory, compute) << MEMORY_BITS) + index.free
    return ranks


def best_fit(index: GpuIndex, _request: GpuRequest, /) -> Numbers:
    """Packs: shared GPUs before idle ones, then the least free memory that fits."""
    ranks: Numbers = ~index.idle * _ONE + (_ONE - 1 - index.free)
    return ranks


def spread(index: GpuIndex, _request: GpuRequest, /) -> Numbers:
    """Spreads pods by number: fewest on the GPU, then fewest on its node, then the most free memory."""
    on_gpu = _GPU_MOST - np.minimum(index.pods, _GPU_MOST)
    on_node = _NODE_MOST - np.minimum(index.node_pods, _NODE_MOST)
    ranks: Numbers = (((on_gpu << _NODE_BITS) + on_node) << MEMORY_BITS) + index.free
    return ranks
