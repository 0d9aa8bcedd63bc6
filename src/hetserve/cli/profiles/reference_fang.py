"""The measurements of Fang et al. (CIKM'17, doi 10.1145/3132847.3133045) as manifests: YOLO, full and tiny."""

from __future__ import annotations

from typing import Final

from hetserve.cli.profiles.reference_manifests import Json, checked, instance_type, service, write
from hetserve.profiles.spec import milliseconds, profile_manifest

BATCHES: Final = (1, 2, 4, 8, 16, 32, 64)
THROUGHPUT: Final[dict[str, dict[str, tuple[float, ...]]]] = {
    "g2.2xlarge": {
        "tiny": (25.6, 35.7, 51.9, 66.1, 73.7, 84.7, 91.2),
        "full": (9.4, 9.4, 12.3, 14.7, 16.0, 16.8),
    },
    "p2.xlarge": {
        "tiny": (23.8, 35.7, 63.5, 90.9, 109.6, 131.1, 141.9),
        "full": (14.5, 18.9, 24.2, 28.4, 31.5, 33.9, 34.6),
    },
}
"""Queries/s by type and variant, at each of BATCHES queries together (Table 1; 64 of full do not fit on g2)."""
VARIANTS: Final = {"tiny": ("57.1", "0.5"), "full": ("63.4", "1")}
"""Mean average precision in percent (section 2), and kappa (section 4)."""
SOFT: Final = "1s"
HARD: Final = "2s"
# $/h of the time, on demand; not in the paper. GPU, its memory, CPU and memory of an instance.
_TYPES: Final = {
    "g2.2xlarge": ("0.65", "GRID-K520", "4Gi", "6", "12Gi"),
    "p2.xlarge": ("0.90", "Tesla-K80", "11441Mi", "3", "50Gi"),
}
_SOURCE: Final = "Fang et al., CIKM'17, Table 1: queries together / queries per second"


def run(output: str | None) -> None:
    """The command `reference fang`, with its option."""
    write(fang_manifests(), "Fang et al., CIKM'17; written by: hetserve reference fang", output)


def fang_manifests() -> list[Json]:
    """InstanceTypes and ModelProfiles of both GPUs, and the InferenceService, planned on one p2."""
    documents = [_type(name) for name in THROUGHPUT]
    documents += [_profile(name) for name in THROUGHPUT]
    documents.append(
        service(
            "yolo",
            "registry.example/yolo:1.0",
            [],
            model={"name": "yolo", "variants": [_variant(name) for name in VARIANTS]},
            objective="MaxThroughput",
            slo={"latency": SOFT, "percentile": "95"},
            budget={"hourly": _TYPES["p2.xlarge"][0]},
            load={"batchSizes": [{"batch": 1, "weight": 1}]},
            dispatch={"ports": {"grpc": 8500}, "deadline": HARD},
        )
    )
    return checked(documents, "Fang et al.")


def _variant(name: str) -> Json:
    accuracy, utility = VARIANTS[name]
    return {"name": name, "accuracy": accuracy, "utility": utility}


def _type(name: str) -> Json:
    price, product, memory, cpu, host = _TYPES[name]
    return instance_type(
        name,
        price={"hourly": price, "per": "Instance"},
        launchTime="120s",
        resources={"cpu": cpu, "memory": host},
        gpu={"product": product, "memory": memory},
    )


def _profile(name: str) -> Json:
    variants = [{"name": variant, "latency": {"table": _rows(rates)}} for variant, rates in THROUGHPUT[name].items()]
    return profile_manifest(
        f"yolo-{name}", "default", model="yolo", instance_type=name, variants=variants, source=_SOURCE
    )


def _rows(rates: tuple[float, ...]) -> list[Json]:
    return [{"batch": n, "mean": milliseconds(n / rate)} for n, rate in zip(BATCHES, rates, strict=False)]
