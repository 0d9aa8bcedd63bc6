"""Kairos's figures, measured again: `python -m benchmarks.kairos`."""
