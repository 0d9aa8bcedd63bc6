"""Fig. 5: two instances and four queries; who serves the query with the higher speed-up decides who is in time."""

from __future__ import annotations

from typing import Final

import numpy as np
from benchmarks.kairos.evaluation.measure import Scale
from benchmarks.kairos.report.plots import COLOURS, figure
from benchmarks.kairos.report.results import picture
from benchmarks.reporting import Json, table, verdict

from hetserve.base.units import Seconds
from hetserve.dispatch import make_policy
from hetserve.profiles import TableProfile
from hetserve.serving.services import GpuInstance, Service
from hetserve.serving.session import Session
from hetserve.serving.system import System

TITLE: Final = "Fig. 5: high speed-ups first, on two instances"

_SLO: Final = 4.0
_SECONDS: Final = {"fast": (2.0, 3.0), "slow": (3.0, 6.0)}
"""Of a small and of a large query [s]."""
_ARRIVALS: Final = (0.0, 0.0, 3.0, 3.0)
_SIZES: Final = (0, 1, 0, 0)
_NAMES: Final = {"fcfs": "first come, first served", "kairos": "Kairos", "hetserve": "hetserve (ours)"}


def measure(scale: Scale) -> Json:  # noqa: ARG001  it is exact
    profiles = {name: TableProfile((1, 2), tuple(map(Seconds, times))) for name, times in _SECONDS.items()}
    return {name: _played(System.of(profiles, (1, 2), _SLO, base="fast"), name) for name in _NAMES}


def _played(system: System, policy: str) -> Json:
    run = Session([Service("example", system, make_policy(policy))])
    run.join_all(GpuInstance("example", name, name) for name in _SECONDS)
    run.arrive("example", np.array(_ARRIVALS), np.array(_SIZES), np.full(len(_SIZES), 0.5))
    run.until()
    outcome = run.outcome()
    return {
        "instances": [list(_SECONDS)[k] for k in outcome.instance],
        "starts": outcome.start.tolist(),
        "ends": outcome.finish.tolist(),
        "inTime": (outcome.finish <= outcome.arrival + _SLO).tolist(),
    }


def describe(data: Json) -> str:
    rows = [
        [
            _NAMES[name],
            *(
                f"{where}, {start:g} to {end:g} s" + ("" if in_time else " (late)")
                for where, start, end, in_time in zip(
                    run["instances"], run["starts"], run["ends"], run["inTime"], strict=True
                )
            ),
            sum(run["inTime"]),
        ]
        for name, run in data.items()
    ]
    _draw(data)
    gain = sum(data["kairos"]["inTime"]) / sum(data["fcfs"]["inTime"]) - 1
    return (
        "The paper gives no figures for its example; ours: a small query takes 2 s on the fast instance and 3 s on the "
        "slow one, a large one 3 and 6 s, and all must end within 4 s. Queries 1 (small) and 2 (large) come at 0 s, "
        "3 and 4 (small) at 3 s.\n\n"
        + table(["", *(f"query {k + 1}" for k in range(len(_SIZES))), "in time"], rows)
        + f"\n- Kairos serves a third more in time (4 queries, not 3): {verdict(round(gain, 2) == 0.33)}.\n\n"
        + picture("fig05", "Four queries on two instances, by dispatcher; grey: late")
    )


def _draw(data: Json) -> None:
    with figure("fig05", 9.0, 2.2, len(data)) as axes:
        for axis, (name, run) in zip(axes, data.items(), strict=True):
            for k, where in enumerate(run["instances"]):
                colour = COLOURS["kairos"] if run["inTime"][k] else COLOURS["homogeneous"]
                length = run["ends"][k] - run["starts"][k]
                axis.barh(where, length, 0.6, run["starts"][k], color=colour, edgecolor="white")
                axis.text(run["starts"][k] + length / 2, where, str(k + 1), color="white", ha="center", va="center")
            axis.set_title(_NAMES[name], fontsize=10)
            axis.set_xlabel("s")
