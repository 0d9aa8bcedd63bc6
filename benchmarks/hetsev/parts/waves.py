"""Section 6.2: three vision models whose rates rise and fall, by Poisson processes."""

from __future__ import annotations

from typing import Final

from benchmarks.hetsev.intervals import estimate
from benchmarks.hetsev.parts.playing import played
from benchmarks.hetsev.parts.settings import ALLOWED
from benchmarks.hetsev.plots import by_service
from benchmarks.hetsev.results import CONTROLLERS, OURS, comparison, goals, of
from benchmarks.hetsev.scale import Scale
from benchmarks.reporting import Json

TITLE: Final = "Fluctuating workload (section 6.2)"
PUBLISHED: Final = 0.0112
_WORDS: Final = """ResNet50, Inception-v3 and SSD-ResNet50 over 2500 s, at most 18 instances together; waves to 60 and
90 % of what 18 instances carry, each on a T4; {seeds} seeds. Queries come whether or not others wait. The paper
counts all queries together (*violate*); its services' own shares are not published. `hetserve` first serves what can
still be in time, and the rest when nothing else waits: a query that is late there can be late by minutes, so the mean
is long where 98 % are short. `hetsev` takes the cheapest type for all of the 18 instances, whatever the rates; those of
the paper are not published.
"""


def measure(scale: Scale) -> Json:
    return played("waves", scale, OURS[:1]) | {"quick": scale.quick}


def describe(data: Json) -> str:
    figures = data["figures"]
    rows: list[tuple[str, str, str, bool | None]] = []
    for name in CONTROLLERS:
        late = estimate([100 * value for value in of(figures, name, lambda one: 1 - one["attainment"])])
        goal, held = (f"<= {PUBLISHED:.2%}", late.mean <= 100 * PUBLISHED) if name in OURS else ("", None)
        goal = f"{PUBLISHED:.2%} published" if name == "hetsev" else goal
        rows.append((f"`{name}`, queries that violate the SLO", goal, late.text(".2f", " %"), held))
    shares = of(figures, OURS[0], lambda one: one["late"])
    broken = f"{sum(share > ALLOWED for share in shares)}; at most {max(shares):.2%}"
    rows.append((f"`{OURS[0]}`, seeds in which a service is late more often than it may", "", broken, None))
    plot = "" if data["quick"] else by_service("waves", data["courses"][OURS[0]])
    return "\n".join((_WORDS.format(seeds=data["seeds"]), comparison(figures), plot, goals(rows)))
