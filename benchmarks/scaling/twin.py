"""Queries/s that the load twin plays in real time, on one core: `python -m benchmarks.scaling.twin [--quick]`.

The whole twin runs beside an API server in memory, in its own process: services, pods that share GPUs, a trace of
constant rate, and a scrape over HTTP in each second.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from http import HTTPStatus
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from benchmarks.reporting import Json, table, verdict

from hetserve_shell.http.client import HttpClient
from hetserve_twin.main import read_loads
from hetserve_twin.settings import TwinSettings
from hetserve_twin.twin import Twin
from testing import builders
from testing.cluster import gpu_node, serving_pod
from testing.kit.apiserver import FakeApiServer

TITLE: Final = "The load twin in real time"
GOAL: Final = 5000
TYPE: Final = "t4"
CASES: Final = ((1, 100), (8, 20), (20, 10))
"""Services, and instances of each."""
GPUS_PER_NODE: Final = 8
MIX: Final = [{"batch": batch, "weight": 1} for batch in (1, 2, 4, 8, 16)]


def a_cluster(services: int, instances: int) -> FakeApiServer:
    """Two pods on each GPU."""
    api = FakeApiServer()
    gpus = -(-services * instances // 2)
    for node in range(-(-gpus // GPUS_PER_NODE)):
        api.add(gpu_node(f"n{node}", gpus=GPUS_PER_NODE))
    api.add(builders.instance_type(TYPE, {"spec.price.per": "GiB"}))
    for s in range(services):
        api.add(_profile(f"s{s}"))
        api.add(builders.service(f"s{s}", {"spec.slo.latency": "100ms", "spec.load.batchSizes": MIX}))
    for k in range(services * instances):
        service, gpu = k % services, (k // services + k % services * instances) % gpus
        name, host = f"s{service}-{k // services}", f"n{gpu // GPUS_PER_NODE}"
        api.add(serving_pod(name, f"s{service}", TYPE, node=host, gpu=str(gpu % GPUS_PER_NODE)))
    return api


def _profile(model: str) -> dict[str, Any]:
    """5.5 to 13 ms."""
    own = {
        "spec.model": model,
        "spec.instanceType": TYPE,
        "spec.latency": {"linear": {"intercept": "5ms", "slope": "0.5ms", "coefficientOfVariation": "0.05"}},
        "spec.gpuMemory": "2Gi",
    }
    return builders.model_profile(f"{model}-{TYPE}", {**own, **builders.MEASURED})


async def _play(services: int, instances: int, rate: float, seconds: int, folder: Path) -> Json:
    trace = folder / "load.csv"
    trace.write_text(f"time_s,qps\n0,{rate / services}\n")
    loads = [{"service": f"s{s}", "trace": str(trace)} for s in range(services)]
    given = {"host": "127.0.0.1", "port": 0, "probeAuthorization": "none", "loads": loads, "logLevel": "error"}
    settings = TwinSettings.model_validate(given)
    twin, stop = Twin(settings, read_loads(settings), a_cluster(services, instances)), asyncio.Event()
    running = asyncio.create_task(twin.run(stop))
    await twin.playing.wait()
    await asyncio.sleep(1.0)  # the first slices
    assert twin.address is not None
    client = HttpClient("http://{}:{}".format(*twin.address), None, 1)
    began, cpu, lags = time.perf_counter(), time.process_time(), []
    before = sum(figures.received for figures in twin.engine.services.values())
    for second in range(1, seconds + 1):
        await asyncio.sleep(began + second - time.perf_counter())
        lags.append(twin.lag())
        status, text = await client.request("GET", "/metrics", headers={}, timeout=10.0)
        assert status == HTTPStatus.OK
    spent, span = time.process_time() - cpu, time.perf_counter() - began
    played = sum(figures.received for figures in twin.engine.services.values()) - before
    client.close()
    stop.set()
    await running
    return {
        "services": services,
        "instances": services * instances,
        "rate": played / span,
        "cpu": spent / span,
        "lag": max(lags),
        "perCore": played / spent,
        "scrapeKiB": len(text) / 1024,
    }


def measure(quick: bool) -> Json:
    seconds = 5 if quick else 30
    with TemporaryDirectory() as folder:
        cases = CASES[:1] if quick else CASES
        rows = [asyncio.run(_play(s, n, GOAL * 1.1, seconds, Path(folder))) for s, n in cases]
    return {"rows": rows, "seconds": seconds}


def describe(data: Json) -> str:
    rows = [
        (
            f"{row['services']}",
            f"{row['instances']}",
            f"{row['rate']:,.0f}",
            f"{row['cpu']:.1%}",
            f"{1000 * row['lag']:.0f} ms",
            f"{row['perCore']:,.0f}",
            f"{row['scrapeKiB']:,.0f} KiB",
        )
        for row in data["rows"]
    ]
    held = all(row["rate"] >= GOAL and row["cpu"] < 1 and row["lag"] < 1 for row in data["rows"])
    head = ("services", "instances", "queries/s played", "of a core", "most lag", "queries/s per core", "a scrape")
    return "\n".join(
        [
            f"The whole twin for {data['seconds']} s of real time, two instances on each GPU, scraped over HTTP once a "
            "second; the play\nand the metrics are in the processor time.\n",
            table(head, rows),
            table(
                ("what", "goal", "figure", ""),
                [("queries/s in real time on one core", f">= {GOAL:,}", _least(data), verdict(held))],
            ),
        ]
    )


def _least(data: Json) -> str:
    return f"{min(row['rate'] for row in data['rows']):,.0f} at {max(row['cpu'] for row in data['rows']):.0%} of it"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one case, 5 s")
    print(describe(measure(parser.parse_args().quick)))


if __name__ == "__main__":
    main()
