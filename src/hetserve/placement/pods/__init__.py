"""A pod as placement sees it: what it requests, what it prefers, where it is, and whether it waits at our gate."""
