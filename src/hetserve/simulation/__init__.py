"""Queries x policy x configuration, simulated deterministically."""
