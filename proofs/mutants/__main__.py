"""`make mutants`: every bug in its own copy of the source, and the test that catches it."""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor

from mutants.catalogue import MUTANTS
from mutants.mutant import Mutant
from mutants.planting import PlantingError, planted
from mutants.trial import ROOT, Result, fails, try_out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="copies side by side")
    parser.add_argument("--only", default="", help="only mutants whose name contains this")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.only in mutant.name]
    if misplaced := [error for mutant in chosen if (error := _misplaced(mutant))]:
        print("\n".join(misplaced), file=sys.stderr)
        return 1
    print(f"{'mutant':58} {'s':>5}  caught by")
    with ThreadPoolExecutor(options.workers) as pool:
        sound = pool.submit(fails, sorted({mutant.node for mutant in chosen}))
        results = [_printed(result) for result in pool.map(try_out, chosen)]
    unsound = sound.result()
    if unsound:
        print(f"the source as it is fails these tests:\n{unsound}")
    escaped = [result for result in results if not result.caught]
    print(f"{len(results) - len(escaped)} of {len(results)} mutants caught")
    return 1 if escaped or unsound else 0


def _misplaced(mutant: Mutant) -> str:
    """Why a mutant cannot be planted; empty if it can."""
    try:
        planted(mutant, ROOT)
    except PlantingError as error:
        return str(error)
    return ""


def _printed(result: Result) -> Result:
    verdict = result.mutant.test if result.caught else f"NOT CAUGHT: {result.words}"
    print(f"{result.mutant.name:58} {result.seconds:5.1f}  {verdict}", flush=True)
    return result


if __name__ == "__main__":
    sys.exit(main())
