"""What the extender shows: metrics, ledger, placement log, drift."""
