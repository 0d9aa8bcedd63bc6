"""The API server: connection, client, lists, watches, Events."""
