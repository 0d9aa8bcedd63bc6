"""The parts of docs/results/superserve.md: TITLE, `measure(quick)` and `describe(data)` each."""
