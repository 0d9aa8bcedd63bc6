"""The load to plan for: the mix of batch sizes."""

from hetserve.demand.batches import declared_mix, parse_batches
from hetserve.demand.mix import BatchMix, kairos_mixture

__all__ = ["BatchMix", "declared_mix", "kairos_mixture", "parse_batches"]
