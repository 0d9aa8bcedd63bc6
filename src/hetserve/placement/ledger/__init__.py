"""Which pod holds how much of which GPU."""
