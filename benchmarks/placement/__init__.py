"""What placement costs and what it buys; makes docs/results/placement.md."""
