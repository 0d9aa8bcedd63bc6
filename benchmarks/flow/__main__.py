"""Measure planner flow and write docs/results/flow.md: `python -m benchmarks.flow [STEP...] [--jobs N] [--quick]`.

Steps: pools (random ones), kairos (its five models), wide (the second family, of all that the API accepts, held against
laws), times. Without names all run. What is kept is not measured again.
Step `again` measures flow alone anew, beside what the report has of the others, step `quick` its plans without trials.
"""

from __future__ import annotations

import argparse
import os
import time

from benchmarks.flow import again, quick, report, wide, workers
from benchmarks.flow.parts import times
from benchmarks.flow.pools import SEED, kairos_names, kairos_pools, pools, small_pools

from hetserve.planning import Problem

STEPS = ("pools", "kairos", "wide", "times")
ALONE = {"again": again.measure_all, "quick": quick.measure_all}
"""Steps beside the report's pools, one at a time."""
_QUICK = 6


def main() -> None:
    options = _parser().parse_args()
    unknown = sorted(set(options.steps) - {*STEPS, *ALONE})
    if unknown:
        raise SystemExit(f"unknown step {', '.join(unknown)}; there are: {', '.join((*STEPS, *ALONE))}")
    steps = () if options.report else options.steps or STEPS
    random = _random(options)
    alone = [step for step in steps if step in ALONE]
    for step in alone:
        command = f'make bench-flow FLAGS="{step} --pools {options.pools} --small {options.small}"'
        ALONE[step](random, options.jobs, command)
    if alone:
        print(f"wrote {report.write()}")
        return
    if "pools" in steps:
        workers.measure_all(random, options.jobs, of_any_code=options.keep)
    if "kairos" in steps:
        workers.measure_all(kairos_pools(), options.jobs, of_any_code=options.keep)
    if "wide" in steps:
        wide.measure_all(_QUICK if options.quick else options.wide, options.jobs, keep=not options.quick)
    if "times" in steps:
        _times(quick=options.quick)
    if options.quick or options.no_report:
        return
    report.collect([one.service for one in random], kairos_names(), "make bench-flow")
    print(f"wrote {report.write()}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join((*STEPS, *ALONE)))
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument("--pools", type=int, default=180, help="random pools (default: 180)")
    parser.add_argument("--small", type=int, default=40, help="small random pools (default: 40)")
    parser.add_argument("--wide", type=int, default=wide.COUNT, help="of the second family (default: 200)")
    parser.add_argument("--seed", type=int, default=SEED, help="of the generator")
    parser.add_argument("--quick", action="store_true", help="six pools and few timings, and no report")
    parser.add_argument("--keep", action="store_true", help="keep records of other versions of the planners")
    parser.add_argument("--report", action="store_true", help="write the report from what is kept")
    parser.add_argument("--no-report", action="store_true", help="only measure")
    return parser


def _random(options: argparse.Namespace) -> tuple[Problem, ...]:
    if options.quick:
        return (*pools(4, options.seed), *small_pools(2, options.seed))
    return (*pools(options.pools, options.seed), *small_pools(options.small, options.seed))


def _times(quick: bool) -> None:
    print("times: programs and processes ...", flush=True)
    started = time.perf_counter()
    data = times.measure(quick)
    if quick:
        print(times.describe(data))
    else:
        report.KEPT.save("times", report.about("make bench-flow FLAGS=times", time.perf_counter() - started), data)


if __name__ == "__main__":
    main()
