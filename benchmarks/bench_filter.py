"""Own time of a filter decision beside a plain loop over the GPUs; every policy, several GPUs, refusals, mode score.

Run: .venv/bin/python -m benchmarks.bench_filter
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import replace

from hetserve.base.units import MiB, Seconds
from hetserve.placement.decision.decide import decide, feasible, scores
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, PolicyName
from hetserve.registry.placement_policies import PLACEMENT_POLICIES

GPUS_PER_NODE = 8
GPU_MIB = 32768
MODELS = 20
ROUNDS = 7
PODS = 200
LARGEST = 1000
GOAL_US = 2000.0

Place = tuple[str, str]
Call = Callable[[GpuRequest], object]


def filled(nodes: int, rng: random.Random) -> tuple[Ledger, dict[Place, tuple[int, set[str]]]]:
    """A ledger with half of its memory booked, and as plain dicts: place -> (free MiB, models)."""
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


def requests_of(rng: random.Random) -> list[GpuRequest]:
    return [a_request(f"new-{i}", f"m{rng.randrange(MODELS)}", rng.choice((4096, 8192))) for i in range(PODS)]


def plain_worst_fit(plain: dict[Place, tuple[int, set[str]]], request: GpuRequest) -> Place | None:
    """Idle GPUs first, then the most free memory, then names."""
    fits = [
        (bool(models), -free, place)
        for place, (free, models) in plain.items()
        if free >= request.memory_mib and request.model not in models
    ]
    return min(fits)[2] if fits else None


def microseconds(call: Call, requests: list[GpuRequest]) -> list[float]:
    """Processor time of each call."""
    taken = []
    for request in requests:
        start = time.thread_time()
        call(request)
        taken.append((time.thread_time() - start) * 1e6)
    return taken


def p99(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=100)[98]


def compare(nodes: int) -> str:
    """One line: equal answers, and both times."""
    rng = random.Random(nodes)  # noqa: S311  a seeded workload, nothing secret
    ledger, plain = filled(nodes, rng)
    names = sorted({place[0] for place in plain})
    requests = requests_of(rng)
    for request in requests:
        chosen = decide(ledger.index, request, names).chosen
        assert (chosen and chosen.places[0]) == plain_worst_fit(plain, request)
    ours_us: list[float] = []
    plain_us: list[float] = []
    for _ in range(ROUNDS):
        ours_us += microseconds(lambda request: decide(ledger.index, request, names), requests)
        plain_us += microseconds(lambda request: plain_worst_fit(plain, request), requests)
    ours, other = statistics.median(ours_us), statistics.median(plain_us)
    return (
        f"{nodes:5d} nodes: hetserve {ours:5.0f} us (p99 {p99(ours_us):5.0f}), plain loop {other:5.0f} us, "
        f"{other / ours:4.1f} times as long"
    )


def variants(ledger: Ledger, names: list[str]) -> dict[str, Call]:
    """Every way in which a verb asks, by name."""
    index = ledger.index

    def decided(policy: PolicyName, gpus: int = 1, **change: object) -> Call:
        return lambda request: decide(index, replace(request, gpus=gpus, **change), names, policy=policy)  # type: ignore[arg-type]

    policies = tuple(map(PolicyName, PLACEMENT_POLICIES.names))
    found: dict[str, Call] = {f"decide, {policy}": decided(policy) for policy in policies}
    found |= {f"decide, {policy}, 4 GPUs": decided(policy, 4) for policy in policies}
    found["decide, refused everywhere"] = decided(PolicyName("WorstFit"), memory_mib=MiB(GPU_MIB + 1))
    found["score, filter"] = lambda request: feasible(index, request, names)
    found["score, prioritize"] = lambda request: scores(index, request, names)
    return found


def main() -> None:
    print(f"filter, {GPUS_PER_NODE} GPUs a node, medians of {ROUNDS} interleaved rounds of {PODS} pods")
    for nodes in (50, 500, LARGEST):
        print(compare(nodes))
    print(f"every variant at {LARGEST} nodes; goal: p99 below {GOAL_US:.0f} us")
    rng = random.Random(LARGEST)  # noqa: S311
    ledger, plain = filled(LARGEST, rng)
    calls = variants(ledger, sorted({place[0] for place in plain}))
    requests = requests_of(rng)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            taken[name] += microseconds(call, requests)
    for name, values in taken.items():
        verdict = "" if p99(values) < GOAL_US else "  above the goal"
        print(f"{name:28s} {statistics.median(values):6.0f} us (p99 {p99(values):6.0f}){verdict}")


if __name__ == "__main__":
    main()
