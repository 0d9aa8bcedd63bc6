"""What an HTTP request costs a component: our loop beside servers of libraries (decision 0032)."""
