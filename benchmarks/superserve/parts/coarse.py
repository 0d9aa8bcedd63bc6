"""Figs. 1b and 1c: what switching by the last second's rate costs."""

from __future__ import annotations

from typing import Final

from benchmarks.reporting import Json
from benchmarks.superserve.results import Row, rows, shown
from benchmarks.superserve.setting import met, recorded, system

from hetserve.dispatch.joining import make_joining_policy

TITLE: Final = "Figs. 1b and 1c: coarse and fine"
_WORDS: Final = """The recorded trace at 6400 queries/s, 60 s. Coarse: one variant on all instances, by the rate of
the last whole second, or more of it; a switch takes 100 ms, or none. Fine: SlackFit, which decides for each batch.
The paper: 2 % of the queries miss their SLO with the coarse policy, none with the fine one.
"""


def measure(quick: bool) -> Json:
    times = recorded("conv", 6400.0, 10.0 if quick else 60.0, peak=8750.0)
    return {
        **{
            f"coarse, {headroom:g} x the rate, switch {switch * 1000:g} ms": met(
                make_joining_policy("coarse", headroom=headroom), times, system(switch=switch)
            )._asdict()
            for headroom in (1.0, 1.2, 1.5)
            for switch in (0.1, 0.0)
        },
        "fine (slackfit), switch 0 ms": met("slackfit", times, system())._asdict(),
        "fine (rate-fit), switch 0 ms": met("rate-fit", times, system())._asdict(),
    }


def describe(data: Json) -> str:
    coarse = "coarse, 1.5 x the rate, switch 100 ms"
    paper = {coarse: ".98", "fine (slackfit), switch 0 ms": "1.0"}
    held = {
        coarse: abs(data[coarse]["attainment"] - 0.98) <= 0.01,
        "fine (slackfit), switch 0 ms": data["fine (slackfit), switch 0 ms"]["attainment"] >= 0.9999,
    }
    found = [Row(name, paper.get(name, ""), "", shown(one), held.get(name)) for name, one in data.items()]
    return f"{_WORDS}\n{rows(found)}"
