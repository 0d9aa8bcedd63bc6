"""Measures the house: sizes, import circles, prose, repeated code, extension."""
