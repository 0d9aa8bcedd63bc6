"""What every shell of hetserve starts with: a connection to the API server, checked settings, the process around it."""
