"""What placement costs and what it buys: measured, one section a module, docs/results/placement.md from all."""
