"""HetSev's testbed (section 6): eight servers of two GPUs, four with V100 of 32 GB and four with T4 of 16 GB."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from hetserve.base.units import MiB
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.pods.requests import GpuRequest

GPUS_PER_SERVER: Final = 2
SERVERS: Final = (("V100", 32768, 4), ("T4", 16384, 4))


@dataclass(frozen=True, slots=True)
class TestbedModel:
    """Memory of an instance [MiB]; `weight`: share of the arrivals."""

    name: str
    memory_mib: int
    weight: float = 1.0


HETSEV_MODELS: Final = tuple(
    TestbedModel(name, 3072) for name in ("resnet50", "inception-v3", "ssd-resnet50", "transformer")
)
"""The paper's four models; 3 GiB each as in the sample."""

MIXED_MODELS: Final = tuple(
    TestbedModel(f"model-{number:02d}", size)
    for number, size in enumerate((1024, 1536, 2048, 2560, 3072, 4096, 5120, 6144, 8192, 10240, 12288, 15360))
)
"""Twelve models from 1 to 15 GiB."""


def testbed() -> list[NodeInventory]:
    """The servers, with the GPUs of each."""
    found = []
    for product, memory, count in SERVERS:
        for number in range(count):
            name = f"{product.lower()}-{number}"
            gpus = tuple(Gpu(str(index), product, MiB(memory)) for index in range(GPUS_PER_SERVER))
            found.append(NodeInventory(name, f"uid-{name}", gpus))
    return found


def arrivals(models: tuple[TestbedModel, ...], count: int, seed: int) -> list[GpuRequest]:
    """`count` instances, drawn by weight."""
    drawn = random.Random(seed).choices(models, [model.weight for model in models], k=count)  # noqa: S311
    return [
        GpuRequest(f"uid-{number}", "default", f"pod-{number}", MiB(model.memory_mib), model.name)
        for number, model in enumerate(drawn)
    ]
