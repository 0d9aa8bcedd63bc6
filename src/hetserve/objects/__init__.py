"""Kubernetes objects as values: how fields and resources of any object are read."""
