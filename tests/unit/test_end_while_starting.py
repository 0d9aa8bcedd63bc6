"""A pod that ends while its process still starts: the first process of a container gets only signals it asked for."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.metadata import entry_points
from typing import Final

import pytest

from hetserve.signals import TERMINATED

WHAT_TAKES_LONG: Final = {
    "hetserve": "hetserve.cli.app",
    "kubectl-hetserve": "hetserve.cli.app",
    "hetserve-operator": "hetserve_operator.main",
    "hetserve-extender": "hetserve_extender.main",
    "hetserve-twin": "hetserve_twin.main",
    "hetserve-worker": "hetserve_worker.main",
}
"""By command, the module of which it imports nearly all."""

# The import never ends. It waits a moment at a time, as Python hears a signal only between two of its instructions: one
# that comes right before a long wait is heard after it.
START: Final = """
import os
import select
import sys
from importlib import import_module

class NeverEnds:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[3]:
            print("importing", flush=True)
            while not select.select([sys.stdin], [], [], 0.01)[0]:
                pass

if sys.argv[4] == "first":
    os.getpid = lambda: 1
sys.meta_path.insert(0, NeverEnds())
getattr(import_module(sys.argv[1]), sys.argv[2])()
"""


@pytest.mark.parametrize("command", sorted(WHAT_TAKES_LONG))
@pytest.mark.parametrize(
    ("place", "unheard", "code"),
    [
        # To the first process of a container the kernel passes no signal that it has not asked for.
        pytest.param("first", signal.SIG_IGN, TERMINATED, id="the-first-of-a-container"),
        pytest.param("other", signal.SIG_DFL, -signal.SIGTERM, id="another"),
    ],
)
def test_a_process_that_is_asked_to_end_while_it_imports_ends(
    command: str, place: str, unheard: signal.Handlers, code: int
) -> None:
    (entry,) = entry_points(group="console_scripts", name=command)
    words = [sys.executable, "-c", START, entry.module, entry.attr, WHAT_TAKES_LONG[command], place]
    before = signal.signal(signal.SIGTERM, unheard)
    try:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGTERM, before)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(10) == code
        finally:
            process.kill()
