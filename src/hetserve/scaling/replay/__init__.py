"""The scaling policy in virtual time: a load trace in; decisions, dollars and late queries out."""

from hetserve.scaling.replay.arrivals import Arrived, arrivals_of
from hetserve.scaling.replay.fleet import Fleet, Span
from hetserve.scaling.replay.following import DecidedAt, Follower, Replay, Setting, follow
from hetserve.scaling.replay.serving import Served, serve

__all__ = [
    "Arrived",
    "DecidedAt",
    "Fleet",
    "Follower",
    "Replay",
    "Served",
    "Setting",
    "Span",
    "arrivals_of",
    "follow",
    "serve",
]
