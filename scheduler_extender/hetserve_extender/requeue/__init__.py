"""Pods that the scheduler tries again because GPUs came free."""
