"""100 seeded sets of services on a few GPUs: how many can be served, and do those hold, whatever neighbours do?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.draws import RULE, SIGMA
from benchmarks.sharing.results import goals
from benchmarks.sharing.rows import rows_of
from benchmarks.sharing.served import SEEDS, served

TITLE: Final = "Sets of services"
SETS: Final = 100
FEASIBLE: Final = 0.6
_WORDS: Final = """{rule}

Sigma {sigma:g}. Services are planned in turn by planner flow, each by the GPUs that those before it have left, and
placed by the extender's decisions; a set is feasible if each has a plan. Then all loads are played at once with
{seeds} seeds that no plan was tried with; of the seeds the worst counts. Then each service is played at its load twice
more: beside neighbours of which every second is always busy (offered 1.3 x what its instances serve alone), and
beside such at drawn loads (.05 to 1.3 of that).
"""
_BESIDE: Final = {"busy": "beside neighbours that are always busy", "drawn": "beside neighbours at drawn loads"}


def measure(quick: bool) -> Json:
    return {"sigma": SIGMA, "rows": rows_of("sets", served, range(4 if quick else SETS), keep=not quick)}


def describe(data: Json) -> str:
    rows = data["rows"]
    some = [row for row in rows if "refused" not in row]
    head = ("played", "services", "hold", "most late", "mean stretch, half below", "the worst", "beyond tolerance")
    played = {"at their loads": [one for row in some for one in row["played"]]} | {
        words: [one for row in some for one in row["beside"] if one["beside"] == how] for how, words in _BESIDE.items()
    }
    density = sum(row["instances"] for row in some) / max(sum(row["in_use"] for row in some), 1)
    return "\n".join(
        [
            _WORDS.format(rule=RULE, sigma=data["sigma"], seeds=len(SEEDS)),
            table(head, [_line(words, ones) for words, ones in played.items()]),
            goals(
                [
                    (
                        "sets that are feasible",
                        f">= {FEASIBLE:.0%}",
                        f"{len(some)} of {len(rows)}; {density:.2f} instances on a GPU",
                        len(some) >= FEASIBLE * len(rows),
                    ),
                    *((f"services that hold {words}", "all", *_held(ones)) for words, ones in played.items()),
                ]
            ),
        ]
    )


def _held(ones: Sequence[Json]) -> tuple[str, bool]:
    held = sum(one["holds"] for one in ones)
    return f"{held} of {len(ones)}", held == len(ones)


def _line(words: str, ones: Sequence[Json]) -> tuple[object, ...]:
    means = sorted(one["mean"] for one in ones)
    half, worst = (means[len(means) // 2], means[-1]) if means else (1.0, 1.0)
    late = max((one["late"] for one in ones), default=0.0)
    held, beyond = sum(one["holds"] for one in ones), sum(not one["within"] for one in ones)
    return words, len(ones), held, f"{late:.2%}", f"{half:.3f}", f"{worst:.3f}", beyond
