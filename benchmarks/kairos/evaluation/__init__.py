"""Allowable throughput of configurations and schemes, and its limits."""
