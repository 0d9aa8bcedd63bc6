"""Operator of hetserve: watches start passes, hetserve.reconcile says what to do, one module reads, one writes."""

from __future__ import annotations

from hetserve.extras import run_main


def start() -> None:
    """Entry point of the console script."""
    run_main("hetserve_operator.main", "operator")
