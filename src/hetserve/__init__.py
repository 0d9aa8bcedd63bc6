"""hetserve: plans, places and explains model services on heterogeneous clusters."""

__version__ = "0.1.0"
