"""Metrics, ledger, placement log, drift."""
