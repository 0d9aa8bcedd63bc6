"""`hetserve compare`: command, answer and picture."""
