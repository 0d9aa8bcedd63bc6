"""A change of plan in a cluster: what its instances carry, what is in their way, and how far it has come."""
