"""Tasks of one event loop: supervision, time slices, garbage collection."""
