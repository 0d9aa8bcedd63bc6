"""Measures the load of services: asks Prometheus, and keeps what it last answered."""
