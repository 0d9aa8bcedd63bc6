"""Robust: leading candidates, each evaluated with the noise of the profiles; the best is chosen."""
