"""Baselines that other planners are measured against."""
