"""Reference worker: serves a small model over the Open Inference Protocol, as long as a profile says it takes."""

from __future__ import annotations

from hetserve.extras import run_main


def start() -> None:
    """Entry point of the console script."""
    run_main("hetserve_worker.main", "worker")
