"""What tests cost: where a run's time went, which new tests are slow, and whether the run kept its budget.

`tests/costs.json` has the seconds of each test that takes over `SLOW`; `pytest --write-costs` brings it up to date with
what was run. A test that computes is measured in seconds of a processor, which other work does not change; one that
waits for a control plane in seconds.
"""

from __future__ import annotations

import json
import os
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pytest

from harness import limits

FILE: Final = Path(__file__).parents[2] / "tests" / "costs.json"
SLOW: Final = 2.0
"""Seconds of a test that is worth a look."""
SHOWN: Final = 20
ALLOWED: Final = 1.5
"""Times the budget that a run may take on a machine as fast as the reference."""
PROPERTY: Final = "cost"
WAITS: Final = "waits for a control plane"
_SPENT: Final = pytest.StashKey[float]()


def known() -> dict[str, float]:
    """Seconds of the tests that are known to be slow, by node id."""
    return dict(json.loads(FILE.read_text())) if FILE.exists() else {}


def updated(before: dict[str, float], seen: dict[str, float]) -> dict[str, float]:
    """What `FILE` says after a run: of each test that was run, as it was now, if it is slow."""
    kept = {nodeid: seconds for nodeid, seconds in before.items() if nodeid not in seen}
    slow = {nodeid: round(seconds, 1) for nodeid, seconds in seen.items() if seconds > SLOW}
    return dict(sorted({**kept, **slow}.items()))


def over(elapsed: float, budget: float, slowness: float) -> str:
    """Why a run exceeds its budget; empty: it does not. elapsed, budget: seconds."""
    most = budget * ALLOWED * slowness
    if elapsed <= most:
        return ""
    return (
        f"the tests took {elapsed:.0f} s: over {most:.0f} s, {ALLOWED:g} times their budget of {budget:.0f} s "
        f"on a machine {slowness:.2f} times as slow as the reference"
    )


def crowding(elapsed: float, others: float, cores: int) -> float:
    """How many times as long a run takes as it would alone. elapsed: seconds; others: processor seconds of theirs."""
    return cores * elapsed / max(cores * elapsed - others, elapsed)


def busy_seconds() -> float:
    """Of all processors since the machine started; 0 where it does not tell."""
    with suppress(OSError):
        user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9])
        return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("costs")
    group.addoption("--budget", type=float, help="seconds; a run of over one and a half times as many fails")
    group.addoption("--write-costs", action="store_true", help=f"bring {FILE.name} up to date")


def pytest_report_header() -> str:
    return f"limits: {limits.slowness():.2f} times those of the reference machine ({limits.SLOWNESS_VARIABLE})"


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs(config), "costs of this run")


def _processor_seconds() -> float:
    """Of this process and of its children that ended."""
    return sum(os.times()[:4])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Collecting is no test's cost."""
    session.config.stash[_SPENT] = _processor_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Notes what the phase cost."""
    report = yield
    before, now = item.config.stash[_SPENT], _processor_seconds()
    item.config.stash[_SPENT] = now
    waits = item.get_closest_marker("cluster") is not None
    report.user_properties += [(PROPERTY, call.duration if waits else now - before), (WAITS, waits)]
    return report


class Costs:
    """Adds up the reports in the process that distributes the tests."""

    def __init__(self, config: pytest.Config) -> None:
        self.budget: float | None = config.option.budget
        self.writes: bool = config.option.write_costs
        self.seen: defaultdict[str, float] = defaultdict(float)
        self.begun, self.busy = time.monotonic(), busy_seconds()
        self.waits = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found: dict[str, Any] = dict(report.user_properties)
        self.seen[report.nodeid] += found.get(PROPERTY, 0.0)
        self.waits |= found.get(WAITS, False)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.exceeded and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @cached_property
    def exceeded(self) -> str:
        """Why, on the machine as others left it to tests that compute; to others as it was or is by now, the slower."""
        elapsed = time.monotonic() - self.begun
        if self.budget is None or not over(elapsed, self.budget, limits.slowness()):
            return ""
        others = 0.0 if self.waits else busy_seconds() - self.busy - sum(self.seen.values())
        slower = max(limits.slower_by_now(), crowding(elapsed, others, os.cpu_count() or 1))
        return over(elapsed, self.budget, limits.slowness() * slower)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if self.writes:
            FILE.write_text(json.dumps(updated(known(), self.seen), indent=0) + "\n")
        if self.budget is None:
            return
        terminalreporter.section("costs")
        terminalreporter.write("".join(f"{line}\n" for line in self.lines()))

    def lines(self) -> Iterator[str]:
        """The dearest files, slow tests that are not known, and whether the budget was kept."""
        files: defaultdict[str, float] = defaultdict(float)
        for nodeid, seconds in self.seen.items():
            files[nodeid.partition("::")[0]] += seconds
        yield "seconds of the dearest files: of a processor, or where a control plane is waited for, of the clock"
        for path, seconds in sorted(files.items(), key=lambda item: -item[1])[:SHOWN]:
            yield f"{seconds:7.1f}  {path}"
        new = {nodeid: seconds for nodeid, seconds in self.seen.items() if seconds > SLOW and nodeid not in known()}
        for nodeid, seconds in sorted(new.items(), key=lambda item: -item[1]):
            yield f"new, over {SLOW:g} s: {seconds:.1f}  {nodeid}"
        yield self.exceeded or f"{time.monotonic() - self.begun:.0f} s of a budget of {self.budget:g} s"
