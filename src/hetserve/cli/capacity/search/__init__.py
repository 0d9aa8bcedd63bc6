"""`hetserve search`: command, answer and picture."""
