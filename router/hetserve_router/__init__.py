"""Router: gives every query of a service to the instance that the service's dispatch policy picks."""

from __future__ import annotations

from hetserve.extras import run_main


def start() -> None:
    """Entry point of the console script."""
    run_main("hetserve_router.main", "router")
