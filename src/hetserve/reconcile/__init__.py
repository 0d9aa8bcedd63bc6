"""Computes the next request from what is declared and what exists: pure, one request per step."""
