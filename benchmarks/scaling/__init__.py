"""Benchmarks of autoscaling."""
