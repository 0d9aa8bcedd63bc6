"""Robust: evaluates leading configurations with the noise of the profiles, and takes the best."""
