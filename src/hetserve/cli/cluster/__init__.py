"""What commands read of a live cluster, or of a file in its place."""
