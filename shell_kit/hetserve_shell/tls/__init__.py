"""TLS of a server: its transport, and certificates that are read again when they change."""
