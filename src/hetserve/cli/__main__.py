"""`python -m hetserve.cli`, where the console script is not on the path."""

from __future__ import annotations

from hetserve.cli import main

if __name__ == "__main__":
    main()
