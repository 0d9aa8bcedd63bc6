"""Load twin: plays load traces against the instances that are Ready in a cluster, and exports what a router would."""

from __future__ import annotations

from hetserve.extras import run_main


def start() -> None:
    """Entry point of the console script."""
    run_main("hetserve_twin.main", "twin")
