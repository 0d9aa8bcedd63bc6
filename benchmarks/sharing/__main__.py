"""Measure parts and write docs/results/sharing.md: `python -m benchmarks.sharing [PART...] [--quick] [--report]`.

Without names all parts are measured.
"""

from benchmarks.running import run
from benchmarks.sharing.results import KEPT, PARTS, save, write

if __name__ == "__main__":
    run(__doc__, KEPT, PARTS, save, write)
