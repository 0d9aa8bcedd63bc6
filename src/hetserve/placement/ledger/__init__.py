"""Which pod holds how much of which GPU, and how that compares with the cluster."""
