"""The load to plan for: arrival rate and mix of batch sizes."""

from hetserve.demand.mix import BatchMix
from hetserve.demand.mixtures import kairos_mixture

__all__ = ["BatchMix", "kairos_mixture"]
