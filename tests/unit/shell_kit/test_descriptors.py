"""Connections of strangers leave descriptors for what the component itself must open."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hetserve_shell.http.server import OWN, shared

WANTED = {"verbs": 1024, "probes": 256}
EVERY = sum(WANTED.values())


def test_where_all_fits_each_port_gets_what_it_wants(caplog: pytest.LogCaptureFixture) -> None:
    for limit in (EVERY + OWN, 1 << 20, resource.RLIM_INFINITY):
        assert shared(WANTED, limit=limit) == WANTED
    assert not caplog.records


def test_where_not_all_fits_each_gets_its_part_and_the_log_says_so(caplog: pytest.LogCaptureFixture) -> None:
    shares = shared(WANTED, limit=1024)
    assert shares == {"verbs": 512, "probes": 128}
    assert "only 1024 descriptors, so connections are fewer: verbs 512 of 1024, probes 128 of 256" in caplog.text


def test_ports_that_get_one_instead_of_none_cost_the_others_and_not_the_component() -> None:
    assert shared({"a": 2000, "b": 1, "c": 1, "d": 1}, limit=16) == {"a": 5, "b": 1, "c": 1, "d": 1}


@given(
    limit=st.integers(16, 4096),
    wanted=st.dictionaries(st.sampled_from("abcd"), st.integers(1, 2000), min_size=1),
)
def test_no_port_gets_more_than_it_wants_nor_all_together_what_is_our_own(limit: int, wanted: dict[str, int]) -> None:
    shares = shared(wanted, limit=limit)
    assert all(1 <= shares[port] <= count for port, count in wanted.items())
    assert sum(shares.values()) <= max(limit - min(OWN, limit // 2), len(wanted))


START = """
import resource
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (min(100, hard), min(400, hard)))
from hetserve_shell.http.server import allotted
print(allotted({"probes": 256})["probes"], *resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_soft_limit_is_raised_to_the_hard_one_before_it_is_shared() -> None:
    done = subprocess.run([sys.executable, "-c", START], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["200", "400", "400"]
