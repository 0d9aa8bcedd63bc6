"""`hetserve autoscale`: command and answer."""
