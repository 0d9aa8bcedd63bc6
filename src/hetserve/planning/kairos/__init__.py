"""Kairos: the most throughput under a budget by an upper bound of every configuration (HPDC 2023)."""
