"""Which waiting pods are released next (HetSev section 4.2)."""
