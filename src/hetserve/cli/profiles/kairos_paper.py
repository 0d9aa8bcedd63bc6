"""SLOs, prices and budget of Kairos (HPDC'23), Tables 3 and 4."""

from __future__ import annotations

from typing import Any, Final

Json = dict[str, Any]

SLO: Final = {"RM2": "350ms", "NCF": "5ms", "WND": "25ms", "MT-WND": "25ms", "DIEN": "35ms"}
"""By model, as the paper names it."""
BUDGET: Final = "2.5"
# One instance requests more than half of its node: it has the node to itself.
TYPES: Final[dict[str, Json]] = {
    "g4dn.xlarge": {
        "price": {"hourly": "0.526", "per": "Instance"},
        "launchTime": "90s",
        "resources": {"cpu": "3", "memory": "12Gi"},
        "gpu": {"product": "Tesla-T4", "memory": "15360Mi"},
    },
    "c5n.2xlarge": {
        "price": {"hourly": "0.432", "per": "Instance"},
        "launchTime": "60s",
        "resources": {"cpu": "6", "memory": "14Gi"},
    },
    "r5n.large": {
        "price": {"hourly": "0.149", "per": "Instance"},
        "launchTime": "60s",
        "resources": {"cpu": "1500m", "memory": "10Gi"},
    },
    "t3.xlarge": {
        "price": {"hourly": "0.1664", "per": "Instance"},
        "launchTime": "60s",
        "resources": {"cpu": "3", "memory": "10Gi"},
    },
}
