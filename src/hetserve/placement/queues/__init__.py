"""Which waiting pods are released next: HetSev's k-means queues with weighted fairness (section 4.2)."""
