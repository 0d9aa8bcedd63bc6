"""Promise: `hetserve doctor` says of real pods that they lead and are of one version."""

from __future__ import annotations

import pytest

from harness import limits
from harness.kind import KindCluster
from harness.waiting import Unmet, wait_until

pytestmark = pytest.mark.beside

PLACING = ("hetserve-extender", "hetserve-scheduler")


def test_components_in_real_pods_lead_and_are_of_one_version(kind: KindCluster) -> None:
    def well() -> dict[str, tuple[str, str]] | Unmet:
        found = kind.diagnosed()
        return found if all(found[name][0] == "Ok" for name in PLACING) else Unmet(found)

    found = wait_until(well, limits.ROLLOUT, "extender and scheduler to be whole, and one of each to lead")
    assert all(found[name][1].endswith(" leads") for name in PLACING)
    assert found["versions"][0] == "Ok"
