"""Scheduler extender: connects `hetserve.placement` with kube-scheduler and the API server."""

from __future__ import annotations

from hetserve.extras import run_main


def start() -> None:
    """Entry point of the console script."""
    run_main("hetserve_extender.main", "extender")
