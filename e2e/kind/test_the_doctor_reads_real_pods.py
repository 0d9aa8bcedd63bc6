"""Promise: `hetserve doctor` says of real pods that they lead, and, where they cannot start, what they wait for."""

from __future__ import annotations

import json
import subprocess

from images import build

from harness.commands import HETSERVE
from harness.components import RELEASE
from harness.kind import KindCluster
from harness.waiting import Unmet, wait_until

PLACING = ("hetserve-extender", "hetserve-scheduler")


def told(kind: KindCluster) -> dict[str, tuple[str, str]]:
    """(level, what) of the first finding of each check, whatever the exit code."""
    command = [str(HETSERVE), "doctor", "-o", "json", "--kubeconfig", str(kind.kubeconfig)]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout)
    return {one["check"]: (one["level"], one["what"]) for one in reversed(said["findings"])}


def test_components_in_real_pods_lead_and_are_of_one_version(kind: KindCluster) -> None:
    def well() -> dict[str, tuple[str, str]] | Unmet:
        found = told(kind)
        return found if all(found[name][0] == "Ok" for name in PLACING) else Unmet(found)

    found = wait_until(well, 60, "extender and scheduler to be whole, and one of each to lead")
    assert all(found[name][1].endswith(" leads") for name in PLACING)
    assert found["versions"][0] == "Ok"


def test_an_image_that_is_not_there_is_named_with_what_the_node_says(bare_kind: KindCluster) -> None:
    wrong = {"extender": {"image": {"tag": "no-such-tag"}}}

    def waiting() -> tuple[str, str] | Unmet:
        found = told(bare_kind).get("hetserve-extender", ("", ""))
        return found if "ErrImageNeverPull" in found[1] else Unmet(found)

    try:
        bare_kind.install(wrong, waits=False, flags=("--no-hooks",))
        level, what = wait_until(waiting, 60, "what the extender's container waits for")
    finally:
        # Without hooks: the job that lifts gates would run the wrong image too.
        bare_kind.helm("uninstall", RELEASE, "--no-hooks", "--wait")
    image = f"{build.tag_of('extender').rpartition(':')[0]}:no-such-tag"
    assert level == "Problem"
    assert what.startswith("none of the 2 replicas is ready: container extender of pod hetserve-extender-")
    assert f"ErrImageNeverPull (image {image}): " in what
