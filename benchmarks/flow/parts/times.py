"""How long the program and a whole plan take, and what a plan's process writes and holds."""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from benchmarks.flow import manifests
from benchmarks.flow.parts.figures import goals
from benchmarks.flow.pools import carrying, large_pool, pools
from benchmarks.flow.program import classes_of, fluid_limit
from benchmarks.reporting import Json

from hetserve.planning import Problem, plan

TITLE: Final = "Time and memory"
LIMITS: Final = {5: 60, 20: 300, 40: 500}
"""Types, and milliseconds of a program."""
_FLOW: Final = "hetserve.planning.flow.programs"
_SHARE: Final = 0.6
_GAP: Final = 0.001
_SPIKE: Final = {5: "60", 20: "140 to 360", 40: "250"}


def measure(quick: bool) -> Json:
    """On a machine that does nothing else."""
    programs = {str(types): _programs(types, 5 if quick else 30) for types in LIMITS} if find_spec(_FLOW) else {}
    small = _both(pools(4 if quick else 20))
    large = _both(tuple(large_pool(20, i) for i in range(2 if quick else 6)))
    with tempfile.TemporaryDirectory() as folder:
        for one in small[:2]:
            _process(one, Path(folder))
        return {
            "programs": programs,
            "plans": [_process(one, Path(folder)) for one in small],
            "largePlans": [_process(one, Path(folder)) for one in large],
        }


def describe(data: Json) -> str:
    rows: list[Any] = []
    for types, most in LIMITS.items():
        for objective in ("MaxThroughput", "MinCost"):
            rows += _program_rows(data["programs"].get(str(types), {}).get(objective, []), types, objective, most)
    for name, key, limit in (("3 to 6 types", "plans", 2.0), ("20 types", "largePlans", 5.0)):
        rows += _plan_rows(data[key], name, limit)
    memory = max(one["mib"] for one in [*data["plans"], *data["largePlans"]])
    broken = sum(not one["parses"] for one in [*data["plans"], *data["largePlans"]])
    rows += [
        ("memory of a plan's process, most", "< 400 MiB", f"{memory:.0f} MiB", memory < 400),
        ("answers of `-o json` with anything beside the document", "0", str(broken), broken == 0),
    ]
    words = (
        "Programs: processor time of one thread, the first call left out. Plans: wall clock from process start, one "
        "process after the other, compiled code on disk.\n"
    )
    return f"{words}\n{goals(rows)}"


def _program_rows(found: Sequence[Json], types: int, objective: str, limit: int) -> list[Any]:
    if not found:
        return []
    median, worst = statistics.median(one["ms"] for one in found), max(one["ms"] for one in found)
    proven = sum(one["gap"] <= _GAP * (1 + 1e-6) for one in found)
    figure = f"median {median:.0f}, most {worst:.0f} ms; proven {proven} of {len(found)}; spike {_SPIKE[types]} ms"
    return [(f"program, {types} types, {objective}", f"< {limit} ms, proven", figure, median < limit)]


def _plan_rows(found: Sequence[Json], name: str, limit: float) -> list[Any]:
    rows = []
    for objective in ("MaxThroughput", "MinCost"):
        asked = [one for one in found if one["objective"] == objective]
        times = [one["seconds"] for one in asked]
        if times:
            median, busy = (statistics.median(one[key] for one in asked) for key in ("seconds", "processor"))
            figure = f"median {median:.2f}, most {max(times):.2f} s of {len(times)}; {busy:.2f} s busy"
            rows.append((f"`hetserve plan`, {name}, {objective}", f"median < {limit:g} s", figure, median < limit))
    return rows


def _both(drawn: Sequence[Problem]) -> list[Problem]:
    """Each pool, and with 60 % of what its best single type could carry as load."""
    found = []
    for given in drawn:
        alone = dict(plan(given, "homogeneous").counts)
        limit = fluid_limit(given, tuple(alone[option.name] for option in given.types), classes_of(given))
        found += [given, *([carrying(given, _SHARE * limit)] if limit else [])]
    return found


def _programs(types: int, count: int) -> dict[str, list[Json]]:
    """Milliseconds and gap of the planner's program at a usual margin."""
    program, classes = (importlib.import_module(f"{_FLOW}.{name}") for name in ("program", "classes"))
    margin, found = program.Margin(late=0.5), dict[str, list[Json]]()
    for given in _both(tuple(large_pool(types, i) for i in range(count + 1))):
        started = time.process_time()
        table = classes.class_table(given)
        mix = _solved(program, table, margin, given)
        spent = 1e3 * (time.process_time() - started)
        if mix is not None:
            prices = (option.price for option in table.types)
            cost = sum(price * n for price, n in zip(prices, mix.counts, strict=True))
            gap = abs(mix.objective_bound / (mix.rate if given.load is None else cost) - 1)
            found.setdefault(given.objective, []).append({"ms": spent, "gap": gap})
    # The first also loads the solver.
    return {objective: rows[1:] for objective, rows in found.items()}


def _solved(program: Any, table: Any, margin: Any, given: Problem) -> Any:
    if given.load is None:
        return program.most_load(table, margin, budget=given.budget)
    return program.least_cost(table, margin, given.load)


def _process(given: Problem, folder: Path) -> Json:
    """Wall clock and memory of one `hetserve plan -o json`."""
    path = manifests.write(given, folder)
    command = [sys.executable, "-m", "hetserve.cli", "plan", str(path), "-o", "json"]
    started = time.perf_counter()
    # Without bytecode on disk every start would compile numba's sources.
    user = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=user) as process:
        assert process.stdout is not None
        answer = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.perf_counter() - started
    return {
        "name": given.service,
        "objective": given.objective,
        "seconds": seconds,
        "processor": used.ru_utime + used.ru_stime,
        "mib": used.ru_maxrss / 1024,
        "code": process.returncode,
        "parses": _parses(answer),
    }


def _parses(answer: bytes) -> bool:
    try:
        return isinstance(json.loads(answer), dict)
    except ValueError:
        return False
