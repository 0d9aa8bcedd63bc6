"""`make flakes`: runs the scenarios again and again beside processes that burn the cores.

Says which test failed in how many of the runs, and which waits used over 60 % of their limit, with the line that waits.
Exit code 1: something failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from harness import limits
from harness.components import ROOT
from harness.waiting import WAITS_VARIABLE

BURN: Final = "while True: pass"


@contextmanager
def burning(count: int) -> Iterator[None]:
    """So many processes burn a core each during the block."""
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def run(folder: Path, workers: str, tests: list[str]) -> list[str]:
    """One run; the tests that failed. folder: for the waits and the report."""
    report = folder / "report.xml"
    # A run of its own measures how slow the machine is, now that the burners run.
    own = {name: value for name, value in os.environ.items() if name != limits.SLOWNESS_VARIABLE}
    command = [sys.executable, "-m", "pytest", "-q", "-n", workers, "--dist", "loadgroup", "-m", "cluster and not deep"]
    subprocess.run(
        [*command, f"--junitxml={report}", *tests], cwd=ROOT, env=own | {WAITS_VARIABLE: str(folder)}, check=False
    )
    return failed(report) if report.exists() else ["the run itself"]


def failed(report: Path) -> list[str]:
    """Tests of a report that failed."""
    cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314  written by our own run
    return [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    ]


def near(folder: Path) -> list[dict[str, Any]]:
    """Waits that used much of their limit, those nearest to it first; each line once."""
    found: dict[str, dict[str, Any]] = {}
    for path in folder.rglob("*.jsonl"):
        for wait in map(json.loads, path.read_text().splitlines()):
            found[wait["line"]] = max(wait, found.get(wait["line"], wait), key=lambda one: one["share"])
    return sorted(found.values(), key=lambda wait: -wait["share"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="make flakes", description=__doc__)
    parser.add_argument("--runs", type=int, default=5, help="N of make flakes")
    parser.add_argument("--burners", type=int, default=2, help="processes that burn a core each")
    parser.add_argument("--workers", default="auto", help="of each run")
    parser.add_argument("tests", nargs="+", help="files of scenarios")
    asked = parser.parse_args()
    failures: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as top, burning(asked.burners):
        for number in range(1, asked.runs + 1):
            folder = Path(top) / str(number)
            folder.mkdir()
            begun = time.monotonic()
            failures.update(found := run(folder, asked.workers, asked.tests))
            print(f"run {number} of {asked.runs}: {len(found)} failed, {time.monotonic() - begun:.0f} s", flush=True)
        for wait in near(Path(top)):
            print(f"{wait['share']:5.0%} of {wait['limit']:.0f} s  {wait['line']}  {wait['what']}")
    for test, count in failures.most_common():
        print(f"failed in {count} of {asked.runs} runs: {test}")
    print("nothing failed" if not failures else f"{len(failures)} tests failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
