"""Reads a live cluster, or a dump in its place."""
