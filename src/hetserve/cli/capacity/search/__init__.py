"""`hetserve search`: command and answer."""
