"""The load to plan for: the mix of batch sizes."""

from hetserve.demand.batches import parse_batches
from hetserve.demand.distributions import declared_mix
from hetserve.demand.mix import BatchMix, kairos_mixture

__all__ = ["BatchMix", "declared_mix", "kairos_mixture", "parse_batches"]
