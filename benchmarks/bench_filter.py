"""Own time of one filter decision, beside a plain loop over the GPUs that answers the same (no HTTP in either).

Run: .venv/bin/python benchmarks/bench_filter.py
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

from hetserve.placement.decide import decide
from hetserve.placement.inventory import Gpu, NodeInventory
from hetserve.placement.ledger import Ledger
from hetserve.placement.requests import GpuRequest
from hetserve.units import MiB, Seconds

GPUS_PER_NODE = 8
GPU_MIB = 32768
MODELS = 20
ROUNDS = 7
PODS = 200

Place = tuple[str, str]


def filled(nodes: int, rng: random.Random) -> tuple[Ledger, dict[Place, tuple[int, set[str]]]]:
    """A ledger with half of its memory booked, and the same as plain dicts: place -> (free MiB, models)."""
    ledger = Ledger()
    plain: dict[Place, tuple[int, set[str]]] = {}
    for number in range(nodes):
        name = f"node-{number:04d}"
        gpus = tuple(Gpu(str(i), "V100", MiB(GPU_MIB)) for i in range(GPUS_PER_NODE))
        ledger.put_node(NodeInventory(name, f"uid-{name}", gpus))
        plain |= {(name, gpu.id): (GPU_MIB, set()) for gpu in gpus}
    for place in list(plain):
        for model in rng.sample(range(MODELS), 2):
            mib = rng.choice((4096, 8192, 12288))
            request = a_request(f"{place}-{model}", f"m{model}", mib)
            ledger.reserve(request, [place], Seconds(1e9))
            free, models = plain[place]
            plain[place] = (free - mib, models | {f"m{model}"})
    return ledger, plain


def a_request(uid: str, model: str, mib: int) -> GpuRequest:
    return GpuRequest(uid=uid, namespace="bench", name=uid, memory_mib=MiB(mib), model=model)


def plain_worst_fit(plain: dict[Place, tuple[int, set[str]]], request: GpuRequest) -> Place | None:
    """Idle GPUs first, then the most free memory, then names: the rule as one reads it."""
    fits = [
        (bool(models), -free, place)
        for place, (free, models) in plain.items()
        if free >= request.memory_mib and request.model not in models
    ]
    return min(fits)[2] if fits else None


def microseconds(call: Callable[[GpuRequest], object], requests: list[GpuRequest]) -> list[float]:
    taken = []
    for request in requests:
        start = time.perf_counter()
        call(request)
        taken.append((time.perf_counter() - start) * 1e6)
    return taken


def compare(nodes: int) -> str:
    """One line: both answer the same on every request, and how long each takes."""
    rng = random.Random(nodes)  # noqa: S311  a seeded workload, nothing secret
    ledger, plain = filled(nodes, rng)
    names = sorted({place[0] for place in plain})
    requests = [a_request(f"new-{i}", f"m{rng.randrange(MODELS)}", rng.choice((4096, 8192))) for i in range(PODS)]
    for request in requests:
        chosen = decide(ledger.index, request, names).chosen
        assert (chosen and chosen.places[0]) == plain_worst_fit(plain, request)
    ours_us: list[float] = []
    plain_us: list[float] = []
    for _ in range(ROUNDS):
        ours_us += microseconds(lambda request: decide(ledger.index, request, names), requests)
        plain_us += microseconds(lambda request: plain_worst_fit(plain, request), requests)
    ours, other = statistics.median(ours_us), statistics.median(plain_us)
    p99 = statistics.quantiles(ours_us, n=100)[98]
    return (
        f"{nodes:5d} nodes: hetserve {ours:5.0f} us (p99 {p99:5.0f}), plain loop {other:5.0f} us, "
        f"{other / ours:4.1f} times as long"
    )


def main() -> None:
    print(f"filter, {GPUS_PER_NODE} GPUs a node, medians of {ROUNDS} interleaved rounds of {PODS} pods")
    for nodes in (50, 500, 1000):
        print(compare(nodes))


if __name__ == "__main__":
    main()
