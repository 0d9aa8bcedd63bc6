"""Computes the next request from what is declared and what exists: pure, one request per step."""

from hetserve.reconcile.events import Announcement, announcements
from hetserve.reconcile.plans.planner import Planner, PlannerAnswer, PlannerTimedOut, PlanPending, PlanQuestion, fits
from hetserve.reconcile.snapshot import (
    Apply,
    Change,
    Create,
    Delete,
    Fenced,
    HandOver,
    Interest,
    Render,
    Rendered,
    Replace,
    Request,
    ServiceSnapshot,
    Settled,
    WriteDecisions,
    WriteFence,
    WriteStatus,
)
from hetserve.reconcile.step import failure_status, step
from hetserve.transition.staging import Costs

__all__ = [
    "Announcement",
    "Apply",
    "Change",
    "Costs",
    "Create",
    "Delete",
    "Fenced",
    "HandOver",
    "Interest",
    "PlanPending",
    "PlanQuestion",
    "Planner",
    "PlannerAnswer",
    "PlannerTimedOut",
    "Render",
    "Rendered",
    "Replace",
    "Request",
    "ServiceSnapshot",
    "Settled",
    "WriteDecisions",
    "WriteFence",
    "WriteStatus",
    "announcements",
    "failure_status",
    "fits",
    "step",
]
