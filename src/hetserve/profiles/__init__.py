"""Latency models: time of a query by batch size and instance type, and its spread."""

from hetserve.profiles.latency import DenseLatency, LatencyProfile, LinearProfile, TableProfile, dense
from hetserve.profiles.spec import profile_from_spec
from hetserve.profiles.spread import CONSTANT, KNOTS, Spread

__all__ = [
    "CONSTANT",
    "KNOTS",
    "DenseLatency",
    "LatencyProfile",
    "LinearProfile",
    "Spread",
    "TableProfile",
    "dense",
    "profile_from_spec",
]
