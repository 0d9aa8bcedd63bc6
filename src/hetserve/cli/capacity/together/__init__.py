"""`hetserve simulate --together`: places, play and answer."""
