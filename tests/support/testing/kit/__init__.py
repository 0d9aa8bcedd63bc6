"""An API server in memory for tests."""
