"""An API server in memory for tests of components, ours and those of users."""
