"""Certificates of a server: read, checked, and read again when they change."""
