"""Own time of a filter decision beside a plain loop over the GPUs; every policy, several GPUs, refusals, mode score.

Last, how pods share: by memory alone, by a percentage of compute, on terms that are counted by pairs. Each is placed,
reserved, and ends once twenty others have come.

Run: .venv/bin/python -m benchmarks.bench_filter
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from hetserve.base.units import MiB, Millionths, Percent, Seconds
from hetserve.objects.gpu_sharing import SharingTerms
from hetserve.placement.decision.decide import decide, feasible, scores
from hetserve.placement.ledger.bookings import LedgerError
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


Shares = Callable[[GpuRequest], GpuRequest]


def on_terms(rng: random.Random) -> Shares:
    """Terms of each model that names all others, as measured pairs do."""
    models = [f"m{number}" for number in range(MODELS)]

    def some(least: int, most: int) -> Millionths:
        return Millionths(rng.randrange(least, most))

    terms = {
        model: SharingTerms(
            some(400_000, 600_000),
            Millionths(1_750_000),
            Millionths(700_000),
            tuple((other, some(30_000, 600_000)) for other in sorted(models)),
        )
        for model in models
    }
    return lambda request: replace(request, compute=Percent(100), sharing=terms[str(request.model)])


def shared(nodes: int, shares: Shares, rng: random.Random) -> Call:
    """The life of a pod in a cluster that holds two tenants a GPU where they fit."""
    ledger, live = Ledger(), list[str]()
    for number in range(nodes):
        gpus = tuple(Gpu(str(i), "V100", MiB(GPU_MIB)) for i in range(GPUS_PER_NODE))
        ledger.put_node(NodeInventory(f"node-{number:04d}", f"uid-{number}", gpus))
    names = tuple(ledger.inventories())
    for place in list(ledger.index.row):
        for model in rng.sample(range(MODELS), 2):
            with suppress(LedgerError):
                ledger.reserve(shares(a_request(f"{place}-{model}", f"m{model}", 8192)), [place], Seconds(1e9))

    def call(request: GpuRequest) -> None:
        asking = shares(replace(request, uid=f"{request.uid}-{len(live)}"))
        if (chosen := decide(ledger.index, asking, names).chosen) is not None:
            ledger.reserve(asking, chosen.places, Seconds(1e9))
        live.append(asking.uid)
        if len(live) > MODELS:
            ledger.release(live[-MODELS])

    return call


def how_pods_share(nodes: int, rng: random.Random) -> None:
    calls = {
        "by memory": shared(nodes, lambda request: request, rng),
        "by percent": shared(nodes, lambda request: replace(request, compute=Percent(30)), rng),
        "on terms": shared(nodes, on_terms(rng), rng),
    }
    requests = requests_of(rng)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            taken[name] += microseconds(call, requests)
    for name, values in taken.items():
        print(
            f"{nodes * GPUS_PER_NODE:5d} GPUs, {name:10s} {statistics.median(values):6.0f} us (p99 {p99(values):6.0f})"
        )


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
    print("a pod is placed, reserved and, later, ends")
    for nodes in (LARGEST // GPUS_PER_NODE, LARGEST):
        how_pods_share(nodes, random.Random(nodes))  # noqa: S311


if __name__ == "__main__":
    main()
