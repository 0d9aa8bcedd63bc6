"""Whether GPUs whose bookings sum to at most 100 stay within sigma, whatever the loads."""

from __future__ import annotations

import random
import statistics
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.bookings import SIGMA, full_gpu, tenants
from benchmarks.sharing.results import goals
from benchmarks.sharing.tenants import SEED, met, stretches

TITLE: Final = "The booking rule keeps the greatest slow-down"
_WORDS: Final = """Random GPUs at sigma {sigma}, tenants added until no more fit: half of the GPUs with shares of .15 to
1 and factors of 1 to 1.25 (half of these small, so that more than two fit), half with tenants that use their bookings
to the last. Always busy: all serve at once, for good. Loads: each gets a random one of up to 1.2 x what it
serves alone.
"""


def measure(quick: bool) -> Json:
    rng, rows = random.Random(SEED), []  # noqa: S311
    for seed in range(20 if quick else 400):
        given = full_gpu(rng, exact=bool(seed % 2))
        shared = tenants(given)
        reports = met(shared, [rng.uniform(0.1, 1.2) for _ in given], 500, seed)
        rows.append(
            {
                "tenants": len(given),
                "percent": sum(one.percent for one in given),
                "busy": max(stretches(shared)),
                "loads": max(report.stretch.most for report in reports),
            }
        )
    return {"sigma": SIGMA, "rows": rows}


def describe(data: Json) -> str:
    rows, sigma = data["rows"], data["sigma"]
    sizes = sorted({row["tenants"] for row in rows})
    lines = []
    for size in sizes:
        some = [row for row in rows if row["tenants"] == size]
        busy = [row["busy"] for row in some]
        percent = f"{statistics.fmean(row['percent'] for row in some):.0f} %"
        most = max(row["loads"] for row in some)
        lines.append((size, len(some), percent, f"{statistics.fmean(busy):.3f}", f"{max(busy):.3f}", f"{most:.3f}"))
    head = ("tenants", "GPUs", "booked, mean", "stretch always busy, mean", "most", "most at random loads")
    checked = []
    for what, key in (("always busy", "busy"), ("at random loads", "loads")):
        most = max(row[key] for row in rows)
        checked.append((f"greatest stretch, {what}", f"<= {sigma}", f"{most:.4f}", most <= sigma + 1e-9))
    return "\n".join([_WORDS.format(sigma=sigma), table(head, lines), goals(checked)])
