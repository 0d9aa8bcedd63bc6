"""Releases pods from our scheduling gate."""
