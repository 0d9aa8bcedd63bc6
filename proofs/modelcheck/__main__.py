"""`make modelcheck`: every scope, two processes side by side, and the count of states."""

from __future__ import annotations

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from modelcheck.explore import Finding, explore
from modelcheck.scopes import DEEP, SCOPES, UNFENCED
from modelcheck.trace import HEAD, row, story
from modelcheck.truth import Scope


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deep", action="store_true", help="larger scopes too: many minutes")
    parser.add_argument("--workers", type=int, default=2, help="processes side by side")
    parser.add_argument("--only", default="", help="only scopes whose name contains this")
    options = parser.parse_args()
    scopes = [scope for scope in SCOPES + (DEEP if options.deep else ()) if options.only in scope.name]
    began, broken, states = time.perf_counter(), 0, 0
    print(HEAD)
    with ProcessPoolExecutor(options.workers) as pool:
        for finding in pool.map(explore, sorted(scopes, key=_longest_first)):
            print(row(finding), flush=True)
            states += finding.states
            if finding.wrong:
                broken += 1
                print(story(finding))
        unfenced = pool.submit(explore, UNFENCED).result()
    print(f"{states:,} states in {time.perf_counter() - began:.0f} s; {broken} scopes broken")
    return 1 if broken or not _breaks(unfenced) else 0


def _breaks(finding: Finding) -> bool:
    print(f"without the fence between two leaders, as it must: {story(finding) if finding.wrong else 'NOTHING FOUND'}")
    return finding.wrong is not None


def _longest_first(scope: Scope) -> int:
    return -(scope.faults + 3 * (scope.processes - 1)) * len(scope.shape.pods)


if __name__ == "__main__":
    sys.exit(main())
