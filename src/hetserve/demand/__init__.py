"""The load to plan for: arrival rate and mix of batch sizes."""

from hetserve.demand.mix import BatchMix

__all__ = ["BatchMix"]
