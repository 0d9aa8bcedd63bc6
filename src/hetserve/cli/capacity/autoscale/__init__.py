"""`hetserve autoscale`: command, answer and picture."""
