"""Entry point of `python -m hetserve.cli`."""

from __future__ import annotations

from hetserve.cli import main

if __name__ == "__main__":
    main()
