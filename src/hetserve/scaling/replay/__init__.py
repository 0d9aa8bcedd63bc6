"""The scaling policy in virtual time: a load trace in; decisions, dollars and late queries out."""

from hetserve.scaling.replay.arrivals import Arrived, Sizes, arrivals_of, drawn_sizes
from hetserve.scaling.replay.fleet import Fleet, Span
from hetserve.scaling.replay.following import DecidedAt, Follower, Playing, Replay, Setting, follow
from hetserve.scaling.replay.serving import Play, Served

__all__ = [
    "Arrived",
    "DecidedAt",
    "Fleet",
    "Follower",
    "Play",
    "Playing",
    "Replay",
    "Served",
    "Setting",
    "Sizes",
    "Span",
    "arrivals_of",
    "drawn_sizes",
    "follow",
]
