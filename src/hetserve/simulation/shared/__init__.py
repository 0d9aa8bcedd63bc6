"""Several services whose instances share GPUs, simulated together.

While an instance serves, its progress is slowed by its busy neighbours; the speed changes while a query is served.
"""
