"""Asks the scheduler to retry refused pods (decision 0037)."""
