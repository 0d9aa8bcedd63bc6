"""`hetserve simulate --together`: places, play, answer and picture."""
