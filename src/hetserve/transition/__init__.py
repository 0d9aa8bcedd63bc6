"""From what runs to a plan: the replicas for now, within every limit; an operator and a replay take the same steps."""
