"""What the paper's text and the reference runs of the notes give (NCF and RM2, queries/s).

The reference runs come from another simulator on the raw samples.
"""

from __future__ import annotations

from typing import Final

RUNS: Final = {
    "NCF": {
        "bound": 7300.4,
        "kairos": 6368.0,
        "homogeneous": 3480.0,
        "oracle": 7418.0,
        "fcfs": 3505.0,
        "threshold": 5503.0,
        "clockwork-earliest": 5398.0,
        "clockwork-least-wait": 5875.0,
    },
    "RM2": {
        "bound": 143.4,
        "kairos": 126.8,
        "homogeneous": 57.3,
        "oracle": 143.3,
        "fcfs": 73.7,
        "threshold": 111.2,
        "clockwork-earliest": 97.0,
        "clockwork-least-wait": 119.3,
    },
}
CONFIGURATIONS: Final = {
    "NCF": {
        "kairos": "(1,0,13,0)",
        "fcfs": "(4,0,2,0)",
        "threshold": "(1,0,13,0)",
        "clockwork-earliest": "(2,0,9,0)",
        "clockwork-least-wait": "(1,0,13,0)",
    },
    "RM2": {
        "kairos": "(1,0,13,0)",
        "fcfs": "(3,0,6,0)",
        "threshold": "(1,0,13,0)",
        "clockwork-earliest": "(2,0,9,0)",
        "clockwork-least-wait": "(1,0,13,0)",
    },
}
SPEARMAN: Final = {"NCF": {"top": 0.71, "all": 0.40}, "RM2": {"top": 0.96, "all": 0.98}}
LARGEST_RATIO: Final = {"NCF": 0.943, "RM2": 0.923}
OF_LP_GOAL: Final = {"NCF": 0.90, "RM2": 0.97, "WND": 0.93, "MT-WND": 0.88, "DIEN": 0.85}
TOLERANCE: Final = 0.03
