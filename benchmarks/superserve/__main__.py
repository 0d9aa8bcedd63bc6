"""Measure parts and write docs/results/superserve.md: `python -m benchmarks.superserve [PART...] [--quick] [--report]`.

Without names all parts are measured.
"""

from benchmarks.running import run
from benchmarks.superserve.results import KEPT, PARTS, save, write

if __name__ == "__main__":
    run(__doc__, KEPT, PARTS, save, write)
