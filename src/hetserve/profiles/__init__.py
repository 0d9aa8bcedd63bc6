"""Latency models: how long one query of a batch size takes on one instance type."""

from hetserve.profiles.latency import LatencyProfile, LinearProfile, TableProfile, profile_from_spec

__all__ = ["LatencyProfile", "LinearProfile", "TableProfile", "profile_from_spec"]
