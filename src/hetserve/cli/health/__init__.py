"""Says how a service and the installation are."""
