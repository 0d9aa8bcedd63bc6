"""`hetserve simulate`: command, answer and picture."""
