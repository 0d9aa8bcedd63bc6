"""Whether the tenants of a GPU stay within their tolerances, whatever the loads."""

from __future__ import annotations

import random
import statistics
from typing import Final

from benchmarks.reporting import Json, table
from benchmarks.sharing.results import goals
from benchmarks.sharing.tenants import SEED, met, stretches
from benchmarks.sharing.terms import as_tenants, full_gpu

from hetserve.objects.gpu_sharing import ONE

TITLE: Final = "The rule keeps every tolerance"
_WORDS: Final = """Random GPUs, tenants added until the next is not tolerated: shares of .15 to 1, tolerances of 1.1 to
5, what one adds to others' times up to .6 x^2 of these, less on half of the others, by pair (half of the tenants are
small, so that more than two fit). Always busy: all serve at once, for good. Loads: each gets a random one of up to 1.2
x what it serves alone. Figures are stretches over the tenant's own tolerance.
"""


def measure(quick: bool) -> Json:
    rng, rows = random.Random(SEED), []  # noqa: S311
    for seed in range(20 if quick else 400):
        given = full_gpu(rng)
        shared, limits = as_tenants(given), [one.terms.tolerance / ONE for one in given]
        reports = met(shared, [rng.uniform(0.1, 1.2) for _ in given], 500, seed)
        rows.append(
            {
                "tenants": len(given),
                "busy": max(met_ / most for met_, most in zip(stretches(shared), limits, strict=True)),
                "loads": max(report.stretch.most / most for report, most in zip(reports, limits, strict=True)),
            }
        )
    return {"rows": rows}


def describe(data: Json) -> str:
    rows, lines = data["rows"], []
    for size in sorted({row["tenants"] for row in rows}):
        some = [row for row in rows if row["tenants"] == size]
        busy = [row["busy"] for row in some]
        figures = statistics.fmean(busy), max(busy), max(row["loads"] for row in some)
        lines.append((size, len(some), *(f"{figure:.3f}" for figure in figures)))
    head = ("tenants", "GPUs", "always busy, mean of the most", "most", "most at random loads")
    checked = []
    for what, key in (("always busy", "busy"), ("at random loads", "loads")):
        most = max(row[key] for row in rows)
        checked.append((f"greatest stretch over tolerance, {what}", "<= 1", f"{most:.4f}", most <= 1 + 1e-9))
    return "\n".join([_WORDS, table(head, lines), goals(checked)])
