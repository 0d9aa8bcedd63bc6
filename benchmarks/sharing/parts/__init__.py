"""The parts of docs/results/sharing.md: TITLE, `measure(quick)` and `describe(data)` each."""
