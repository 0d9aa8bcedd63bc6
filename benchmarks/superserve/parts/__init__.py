"""Each measures one thing."""
