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
}
"""By command, the module of which it imports nearly all."""

# As the kernel does for the first process of a container, SIGTERM is ignored unless somebody asks for it. The import
# never ends.
START: Final = """
import sys
from importlib import import_module

class NeverEnds:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[3]:
            print("importing", flush=True)
            sys.stdin.read()

sys.meta_path.insert(0, NeverEnds())
getattr(import_module(sys.argv[1]), sys.argv[2])()
"""


@pytest.mark.parametrize("command", sorted(WHAT_TAKES_LONG))
def test_a_process_that_is_asked_to_end_while_it_imports_ends(command: str) -> None:
    (entry,) = entry_points(group="console_scripts", name=command)
    words = [sys.executable, "-c", START, entry.module, entry.attr, WHAT_TAKES_LONG[command]]
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    finally:
        signal.signal(signal.SIGTERM, before)
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"importing\n"
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(10) == TERMINATED
        finally:
            process.kill()
