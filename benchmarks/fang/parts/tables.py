"""Tables 2 to 5: the heuristic and the fixed scheduler beside the paper."""

from __future__ import annotations

from typing import Final

from benchmarks.fang.results import by_window, cell
from benchmarks.fang.world import FLEETS, RATES, paper, play
from benchmarks.reporting import Json, table, verdict

from hetserve.dispatch.joining import make_joining_policy

TITLE: Final = "Tables 2 to 5: fixed and heuristic"
_NAMES: Final = {"one": "one p2", "ten": "5 g2 + 5 p2"}
_POLICIES: Final = {"fixed": "fang-fixed", "heuristic": "fang"}
_INDEPENDENT: Final = {
    ("one", "fixed"): (".964 (.129) / 7.0", ".885 (.211) / 22.8", ".937 (.166) / 12.5", ".920 (.184) / 15.9"),
    ("one", "heuristic"): (".969 (.120) / 5.9", ".915 (.188) / 16.9", ".948 (.152) / 10.1", ".938 (.165) / 12.2"),
    ("ten", "fixed"): (".773 / 45", ".720 / 56", ".750 / 50", ".740 / 52"),
    ("ten", "heuristic"): (".947 (.142) / 8.1", ".873 (.209) / 22.7", ".912 (.179) / 14.3", ".897 (.191) / 17.1"),
}
"""Figures of another simulation of the same setting, in plain code."""
QUALITY: Final = {"one": 0.01, "ten": 0.03}
"""Most that the heuristic's mean quality may differ from the paper's."""
DEVIATION: Final = {"one": 0.015, "ten": 0.03}
EPSILON: Final = (0.0, 0.03)


def measure(quick: bool) -> Json:
    seconds = 600 if quick else 3 * 3600
    return {
        f"{name} {scheduler}": {
            window: play(name, make_joining_policy(policy), window, seconds=seconds).cell for window in RATES
        }
        for name in FLEETS
        for scheduler, policy in _POLICIES.items()
    }


def describe(data: Json) -> str:
    rows = []
    for name in FLEETS:
        for scheduler in _POLICIES:
            ours = data[f"{name} {scheduler}"]
            told = [paper()[name, scheduler, window] for window in RATES]
            checked = scheduler == "heuristic"
            rows += [
                (f"{_NAMES[name]}, {scheduler}: paper", [cell(one) for one in told]),
                ("independent run", _INDEPENDENT[name, scheduler]),
                ("ours", [cell(ours[w], checked and not _near(name, w, ours[w])) for w in RATES]),
            ]
    return by_window(rows) + "\n" + _WORDS + "\n" + _goals(data)


def _near(name: str, window: str, ours: list[float]) -> bool:
    told = paper()[name, "heuristic", window]
    return abs(ours[0] - told.quality) <= QUALITY[name] and abs(ours[1] - told.deviation) <= DEVIATION[name]


_WORDS: Final = """Only the heuristic has a goal: the paper does not say by which model rule its fixed scheduler serves.
Here it is the heuristic's. On one GPU that is better than the paper's, on ten worse.
"""


def _goals(data: Json) -> str:
    rows = []
    for name in FLEETS:
        ours = {window: data[f"{name} heuristic"][window] for window in RATES}
        worst = max(abs(ours[w][0] - paper()[name, "heuristic", w].quality) for w in RATES)
        wide = max(abs(ours[w][1] - paper()[name, "heuristic", w].deviation) for w in RATES)
        epsilon = [1 - found[2] / 2 - found[0] for found in ours.values()]
        rows += [
            (f"{_NAMES[name]}: quality, farthest from the paper", f"<= {QUALITY[name]:g}", f"{worst:.3f}",
             verdict(worst <= QUALITY[name])),
            (f"{_NAMES[name]}: deviation, farthest", f"<= {DEVIATION[name]:g}", f"{wide:.3f}",
             verdict(wide <= DEVIATION[name])),
            (f"{_NAMES[name]}: 1 - tiny / 2 - quality", "0 to 0.03", f"{min(epsilon):.4f} to {max(epsilon):.4f}",
             verdict(EPSILON[0] <= min(epsilon) and max(epsilon) <= EPSILON[1])),
        ]  # fmt: skip
    return table(("what", "goal", "figure", ""), rows)
