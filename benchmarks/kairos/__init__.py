"""Kairos's figures, measured again: one module per figure, all by `python -m benchmarks.kairos`."""
