"""The real control plane: schedulers under test, extenders and load."""
