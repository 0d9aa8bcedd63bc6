"""The scaling policy in virtual time: a load trace in; decisions, dollars and late queries out."""

from hetserve.scaling.replay.arrivals import Arrived, arrivals_of
from hetserve.scaling.replay.course import Course, Decided, Follower, Setting, follow
from hetserve.scaling.replay.fleet import Fleet, Span
from hetserve.scaling.replay.serving import Served, serve

__all__ = [
    "Arrived",
    "Course",
    "Decided",
    "Fleet",
    "Follower",
    "Served",
    "Setting",
    "Span",
    "arrivals_of",
    "follow",
    "serve",
]
