"""The cluster as observed: objects, room, shared GPUs, launch times, and messages."""
