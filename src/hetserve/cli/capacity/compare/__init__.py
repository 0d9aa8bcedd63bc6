"""`hetserve compare`: command and answer."""
