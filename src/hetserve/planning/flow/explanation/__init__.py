"""Explains a choice of planner flow: prices, next steps, and what became of the others."""
