"""Deterministic simulation of queries x policy x configuration."""
