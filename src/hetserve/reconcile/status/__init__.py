"""What a service's status says: instances, conditions, load, and shared GPUs."""
