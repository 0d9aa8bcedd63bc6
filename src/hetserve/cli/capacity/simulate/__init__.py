"""`hetserve simulate`: command and answer."""
