"""Kairos: the most throughput under a budget by an upper bound (HPDC'23)."""
