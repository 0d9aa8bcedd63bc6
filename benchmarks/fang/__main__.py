"""Measure parts and write docs/results/fang.md: `python -m benchmarks.fang [PART...] [--quick] [--report]`.

Without names all parts are measured.
"""

from benchmarks.fang.results import KEPT, PARTS, save, write
from benchmarks.running import run

if __name__ == "__main__":
    run(__doc__, KEPT, PARTS, save, write)
