"""Decisions of scaling: made again, and in words."""
