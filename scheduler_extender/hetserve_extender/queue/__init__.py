"""Releases pods from our scheduling gate: `controller` performs what the state machine `release_queue` decides."""
