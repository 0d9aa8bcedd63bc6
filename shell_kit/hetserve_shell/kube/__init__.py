"""The API server: connection, client, paged lists, list and watch."""
