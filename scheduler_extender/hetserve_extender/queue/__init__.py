"""Pods at our scheduling gate: who is next, and the patches that lift it."""
