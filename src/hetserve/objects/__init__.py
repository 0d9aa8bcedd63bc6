"""Readers of Kubernetes objects: metadata, pods, nodes and what pods request."""
