"""The flow program, what it is made from, and its solver."""
