"""Measures the operator on a real control plane: a large installation, at rest, with edits, with many new services."""
