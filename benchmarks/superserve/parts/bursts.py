"""Fig. 8: bursty traces of three rates and three variations; and the same beyond what the paper tries."""

from __future__ import annotations

from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.superserve.plots import scatter
from benchmarks.superserve.results import Row, near, rows, shown
from benchmarks.superserve.setting import SUBNETS, bursty, met, system

TITLE: Final = "Fig. 8: bursty arrivals"
RATES: Final = (4460.0, 6402.0, 7060.0)
VARIATIONS: Final = (2.0, 4.0, 8.0)
POLICIES: Final = ("rate-fit", "slackfit", "max-batch", "max-accuracy", "infaas", *(str(one) for one in SUBNETS[1:]))
HARD: Final = (16.0, 32.0, 64.0)
_REFERENCE: Final = {
    "4460 2 slackfit": "1.0 / 80.01", "4460 2 max-batch": "1.0 / 80.01", "4460 2 max-accuracy": ".847 / 76.87",
    "6402 2 slackfit": "1.0 / 79.25", "6402 2 max-batch": "1.0 / 79.46", "6402 2 max-accuracy": ".645 / 75.42",
    "6402 2 infaas": "1.0 / 73.82", "6402 4 slackfit": "1.0 / 79.23", "6402 4 max-batch": "1.0 / 79.42",
    "4460 8 slackfit": "1.0 / 79.93", "4460 8 max-batch": "1.0 / 79.93", "6402 8 slackfit": "1.0 / 79.14",
    "6402 8 max-batch": "1.0 / 79.36", "7060 8 slackfit": ".99997 / 78.76", "7060 8 max-batch": "1.0 / 79.13",
    "6402 2 79.44": ".315 / 79.44", "6402 2 80.16": ".178 / 80.16",
}  # fmt: skip
_HARD: Final = {16.0: (".995", 0.9999), 32.0: (".969", 0.999), 64.0: (".903", 0.997)}
_WORDS: Final = """The paper's claim is at least .999 for SlackFit on each trace. An even stream of 1500 queries/s,
which the paper does not state, and a bursty one. `rate-fit` is to reach .9999 within 0.1 points of MaxBatch's
accuracy from 6400 queries/s on.

79.44 alone carries 6614 queries/s, and 80.16 carries 4516: when their queues collapse depends on the seed.

![share in time against accuracy](superserve/bursts.png)
"""


def measure(quick: bool) -> Json:
    seconds = 5.0 if quick else 60.0
    found: Json = {}
    for rate in RATES:
        for cv2 in VARIATIONS:
            times = bursty(rate, cv2, seconds)
            found[f"{rate:g} {cv2:g}"] = {name: met(name, times, system())._asdict() for name in POLICIES}
    hard = {}
    for cv2 in HARD:
        times = bursty(7000.0, cv2, seconds, base=0.0)
        hard[f"{cv2:g}"] = {name: met(name, times, system())._asdict() for name in POLICIES}
    if not quick:
        scatter("bursts", found, POLICIES)
    return {"cells": found, "hard": hard}


def describe(data: Json) -> str:
    cells = [(name, [shown(one[policy]) for policy in POLICIES]) for name, one in data["cells"].items()]
    marked = [
        Row(f"{policy}, {key}", ">= .999" if policy == "slackfit" else "", _REFERENCE.get(f"{key} {policy}", ""),
            shown(one[policy]), _held(f"{key} {policy}", policy, one))
        for key, one in data["cells"].items() for policy in ("slackfit", "rate-fit", "max-batch", "max-accuracy")
    ] + [
        Row(f"{policy}, 6402 2", "", _REFERENCE[f"6402 2 {policy}"], shown(one[policy]),
            near(one[policy], _REFERENCE[f"6402 2 {policy}"]))
        for one in [data["cells"]["6402 2"]] for policy in ("infaas", "79.44", "80.16")
    ]  # fmt: skip
    hard = [
        Row(f"rate-fit, CV2 {cv2}", "", f"goal >= {_HARD[float(cv2)][1]}", shown(one["rate-fit"]),
            one["rate-fit"]["attainment"] >= _HARD[float(cv2)][1])
        for cv2, one in data["hard"].items()
    ] + [
        Row(f"{name}, CV2 {cv2}", "", f"{_HARD[float(cv2)][0]}" if name == "slackfit" else "", shown(one[name]))
        for cv2, one in data["hard"].items() for name in POLICIES[1:6]
    ]  # fmt: skip
    head = table(("rate CV2", *POLICIES), [(name, *each) for name, each in cells])
    beyond = f"All of the arrivals bursty, 7000 queries/s:\n\n{rows(hard)}"
    return f"{_WORDS}\n{rows(marked)}\nAll policies:\n\n{head}\n{beyond}"


def _held(key: str, policy: str, one: Json) -> bool | None:
    figure = one[policy]
    if policy == "slackfit":
        return bool(figure["attainment"] >= 0.999) and (key not in _REFERENCE or near(figure, _REFERENCE[key]))
    if policy == "rate-fit":
        close = figure["accuracy"] >= one["max-batch"]["accuracy"] - 0.1
        return None if key.startswith("4460") else bool(figure["attainment"] >= 0.9999) and close
    return near(figure, _REFERENCE[key]) if key in _REFERENCE else None
