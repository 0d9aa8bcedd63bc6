"""Computes the next request from what is declared and what exists: pure, one request per step."""

from hetserve.reconcile.events import Announcement, announcements
from hetserve.reconcile.step import failure_status, step
from hetserve.reconcile.world import (
    Apply,
    Create,
    Delete,
    HandOver,
    Interest,
    Render,
    Rendered,
    Replace,
    Request,
    Settled,
    World,
    WriteStatus,
)

__all__ = [
    "Announcement",
    "Apply",
    "Create",
    "Delete",
    "HandOver",
    "Interest",
    "Render",
    "Rendered",
    "Replace",
    "Request",
    "Settled",
    "World",
    "WriteStatus",
    "announcements",
    "failure_status",
    "step",
]
