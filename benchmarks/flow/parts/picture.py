"""The scatter of both objectives: every pool a point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from benchmarks.flow.parts import least, most
from benchmarks.flow.parts.figures import OURS
from benchmarks.reporting import RESULTS, Json

FILE: Final = RESULTS / "flow" / "pools.png"


def draw(throughput: Sequence[Json], costs: Sequence[Json]) -> None:
    """rows of the sections `most` and `least`."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9, 4), layout="constrained")
    held = [row for row in throughput if row["best"] > 0]
    left.scatter(most.of_best(held, "kairos"), most.of_best(held, OURS), s=14, alpha=0.6)
    left.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    left.set_xlabel("kairos: q/s over the best known")
    left.set_ylabel("flow: q/s over the best known")
    over = sorted(ratio for ratio in least.over_ilp(costs, OURS) if math.isfinite(ratio))
    right.plot([(i + 0.5) / len(over) for i in range(len(over))], over, marker=".", linewidth=0.8)
    right.axhline(0.72, color="black", linestyle=":", linewidth=0.8, label="goal of the median")
    right.set_xlabel("share of the cases")
    right.set_ylabel("cost of flow over ilp's")
    right.legend(fontsize=8)
    FILE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FILE, dpi=110, metadata={"Software": None})
    pyplot.close(figure)
