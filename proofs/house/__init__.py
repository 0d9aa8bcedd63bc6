"""Measures the house: sizes, import circles, prose, repeated code, and what adding a thing touches."""
