"""Fang et al.'s tables and figures, measured again: `python -m benchmarks.fang`."""
