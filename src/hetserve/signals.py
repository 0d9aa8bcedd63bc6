"""SIGTERM for the first process of a container.

The kernel passes such a process no signal that it has not asked for, and it imports for a second or more before it
serves. A pod that ends in that time would run on for its whole grace period, and be killed with what it holds.
"""

from __future__ import annotations

import os
import signal
from typing import Final

TERMINATED: Final = 128 + signal.SIGTERM
"""Exit code of who was ended, as shells count it."""


def end_on_sigterm() -> None:
    """SIGTERM ends the first process of a container with code 143; a component takes the signal once it serves.

    Any other process ends without us, also amid a long computation, after which alone Python would hear the signal.
    """
    if os.getpid() == 1:
        # No exception: something that is imported could catch it.
        signal.signal(signal.SIGTERM, lambda *_: os._exit(TERMINATED))
