"""What the paper leaves out: switches that cost time, noise, no dropping, two SLOs, other numbers of buckets."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from benchmarks.reporting import Json
from benchmarks.superserve.results import Row, rows, shown
from benchmarks.superserve.setting import bursty, figures, met, play, policy, system

from hetserve.dispatch.joining import make_joining_policy
from hetserve.dispatch.joining.interface import BY_ARRIVAL

TITLE: Final = "Traps"
_SWITCHES: Final = {0.0: "1.0", 0.0002: ".995", 0.001: ".947", 0.005: ".416", 0.01: ".251", 0.1: ".047"}
_WORDS: Final = """Switch times at 6402 queries/s, CV2 4: SuperServe's policies do not know them, ours does. Noise:
service times vary by 2 %, at 7060 queries/s, CV2 8; a margin of 5 % on what is predicted mends it. Without dropping,
fixed accurate variants diverge. Two SLOs: half of the queries of one trace have 100 ms; only there does the earliest
deadline first differ from the order of arrival.
"""


def measure(quick: bool) -> Json:
    seconds = 5.0 if quick else 30.0
    times, heavy = bursty(6402.0, 4.0, seconds), bursty(7060.0, 8.0, seconds)
    even = bursty(6402.0, 2.0, seconds)
    found: Json = {"switches": {}, "noise": {}, "keeping": {}, "slos": {}, "buckets": {}}
    for switch in _SWITCHES:
        for name in ("slackfit", "rate-fit"):
            found["switches"][f"{switch * 1000:g} {name}"] = met(name, times, system(switch=switch))._asdict()
    for margin in (1.0, 1.05):
        for name in ("slackfit", "max-batch", "rate-fit"):
            run = play(policy(name), heavy, system(noise=0.02), margin=margin)
            found["noise"][f"{name}, margin {margin - 1:.0%}"] = figures(run)._asdict()
    for name in ("slackfit", "rate-fit", "max-accuracy", "79.44"):
        found["keeping"][name] = met(replace(policy(name), drops=False), even, system())._asdict()
    slos = np.random.default_rng(2).choice((0.036, 0.1), len(heavy))
    for name in ("slackfit", "rate-fit"):
        for order, rule in (("deadline", policy(name)), ("arrival", replace(policy(name), order=BY_ARRIVAL))):
            found["slos"][f"{name}, by {order}"] = figures(play(rule, heavy, system(), slos=slos))._asdict()
    for buckets in (8, 16, 64):
        found["buckets"][str(buckets)] = met(
            make_joining_policy("slackfit", buckets=buckets), heavy, system()
        )._asdict()
    return found


def describe(data: Json) -> str:
    noise = {"slackfit, margin 0%": ".991", "max-batch, margin 0%": ".994", "slackfit, margin 5%": ".9999"}
    found = [
        Row(f"{name.partition(' ')[2]}, a switch takes {name.partition(' ')[0]} ms", "",
            _SWITCHES[float(name.partition(" ")[0]) / 1000] if "slackfit" in name else "", shown(one))
        for name, one in data["switches"].items()
    ]  # fmt: skip
    found += [Row(f"{name}, noise 2 %", "", noise.get(name, ""), shown(one)) for name, one in data["noise"].items()]
    found += [Row(f"{name}, nothing dropped", "", "", shown(one)) for name, one in data["keeping"].items()]
    found += [Row(f"{name}, two SLOs", "", "", shown(one)) for name, one in data["slos"].items()]
    found += [Row(f"slackfit, {name} buckets", "", "", shown(one)) for name, one in data["buckets"].items()]
    return f"{_WORDS}\n{rows(found)}"
