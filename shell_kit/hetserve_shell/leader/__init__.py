"""Leader election over a Lease of coordination.k8s.io."""
