"""The parts of docs/results/hetsev.md, one module each."""
