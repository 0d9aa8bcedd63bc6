"""Sections of docs/results/flow.md, each from the kept records of the pools."""
