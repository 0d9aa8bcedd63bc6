"""GPUs that placement needs for a few instances, beside the fewest: under the booking rule, and in the simulation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.packing import GPUS, MOST, packed
from benchmarks.sharing.results import goals
from benchmarks.sharing.rows import rows_of
from benchmarks.sharing.ways import POLICIES

from hetserve.registry.placement_policies import default_placement_policy

TITLE: Final = "Density"
SETS: Final = 60
GOAL: Final = 1.25
DENSEST: Final = "BestFit"
_WORDS: Final = """{sets} sets of 3 to {most} instances that the rule fits on {gpus} T4s: share .15 to 1 (logarithmic),
tolerance 1.25 to 4, added to others' times up to x^2 of what is tolerated, on half of them less, 1 to 6 GiB, one in
four a second instance of a model that is there; every way to share them out is tried. Fewest by the rule: tolerances
are kept, memory suffices, no model twice on a GPU. Fewest that hold: each instance, with Poisson arrivals at .05 to .75
of what it serves at its tolerance, keeps an SLO of 1.1 x the p98 that it has alone at service times x its tolerance.
Needs: the smallest cluster on which placement finds room for all, one after the other. In use: GPUs with an instance
when there are {gpus}; worst fit spreads over all that there are, on purpose.
"""


def measure(quick: bool) -> Json:
    return {"rows": rows_of("density", packed, range(4 if quick else SETS), keep=not quick)}


def describe(data: Json) -> str:
    rows, default = data["rows"], default_placement_policy()
    rule, play = (sum(row[way] for row in rows) for way in ("rule", "play"))
    policies = [name for name in POLICIES if name in rows[0]["needs"]]
    head = ("policy", "needs", "over the fewest", f"in use of {GPUS}", "over the fewest", "sets placed on as many")
    ratio = _needed(rows, default) / rule
    return "\n".join(
        [
            _WORDS.format(sets=len(rows), most=MOST, gpus=GPUS),
            table(head, [_line(policy, rows, rule) for policy in policies]),
            goals(
                [
                    (
                        f"GPUs that placement needs (`{default}`, the default) over the fewest by the rule",
                        f"<= {GOAL}",
                        f"{ratio:.2f}",
                        ratio <= GOAL,
                    ),
                    *(_in_use(policy, rows) for policy in dict.fromkeys((default, DENSEST))),
                    (
                        "fewest by the rule over the fewest that hold: the price of the promise",
                        "",
                        f"{rule / play:.2f}",
                        None,
                    ),
                    (
                        "GPUs: needed; fewest by the rule; fewest that hold",
                        "",
                        f"{_needed(rows, default)}; {rule}; {play}",
                        None,
                    ),
                ]
            ),
        ]
    )


def _needed(rows: Sequence[Json], policy: str) -> int:
    return sum(row["needs"][policy] for row in rows)


def _in_use(policy: str, rows: Sequence[Json]) -> tuple[str, str, str, bool]:
    _, used, least = _placed(policy, rows)
    ratio = used / max(least, 1)
    return (
        f"GPUs in use of {GPUS} by `{policy}` over the fewest by the rule",
        f"<= {GOAL}",
        f"{ratio:.2f}",
        ratio <= GOAL,
    )


def _placed(policy: str, rows: Sequence[Json]) -> tuple[int, int, int]:
    """(Sets placed whole on GPUS, GPUs in use then, the fewest of these sets)."""
    whole = [row for row in rows if row["used"].get(policy) is not None]
    return len(whole), sum(row["used"][policy] for row in whole), sum(row["rule"] for row in whole)


def _line(policy: str, rows: Sequence[Json], rule: int) -> tuple[object, ...]:
    (whole, used, least), needed = _placed(policy, rows), _needed(rows, policy)
    in_use = f"{used / max(least, 1):.2f}"
    return (f"`{policy}`", needed, f"{needed / rule:.2f}", used, in_use, f"{whole} of {len(rows)}")
