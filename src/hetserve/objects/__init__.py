"""Kubernetes objects as the API server writes them: one reader each for metadata, pods, nodes and what pods request."""
