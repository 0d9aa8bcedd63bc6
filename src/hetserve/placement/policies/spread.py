"""Spreads pods by number: fewest on the GPU, then fewest on its node, then the most free memory."""

from __future__ import annotations

from typing import Final

import numpy as np

from hetserve.placement.ledger.index import GpuIndex, Numbers
from hetserve.placement.pods.requests import GpuRequest
from hetserve.placement.policies.interface import MEMORY_BITS

_NODE_BITS: Final = 18
_NODE_MOST: Final = (1 << _NODE_BITS) - 1
_GPU_MOST: Final = (1 << 16) - 1
"""Counts above are equal; a kubelet runs some hundred pods."""


def rank(index: GpuIndex, _request: GpuRequest, /) -> Numbers:
    on_gpu = _GPU_MOST - np.minimum(index.pods, _GPU_MOST)
    on_node = _NODE_MOST - np.minimum(index.node_pods, _NODE_MOST)
    ranks: Numbers = (((on_gpu << _NODE_BITS) + on_node) << MEMORY_BITS) + index.free
    return ranks
