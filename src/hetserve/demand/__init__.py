"""The load to plan for: the mix of batch sizes."""

from hetserve.demand.batches import parse_batches
from hetserve.demand.mix import BatchMix, kairos_mixture

__all__ = ["BatchMix", "kairos_mixture", "parse_batches"]
