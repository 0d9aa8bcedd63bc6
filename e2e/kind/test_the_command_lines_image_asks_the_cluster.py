"""Promise: the image of the command line plans as the wheel does and asks a cluster, where it can write nothing."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from harness.commands import hetserve
from harness.components import ROOT
from harness.containers import in_the_image
from harness.kind import COMMAND_LINE, KindCluster
from harness.waiting import Unmet, wait_until

FOUND_SOMETHING: Final = 3
"""Exit code of the doctor."""
SAMPLE: Final = ROOT / "manifests" / "samples" / "rm2.yaml"


def test_it_plans_as_the_wheel_does() -> None:
    with ThreadPoolExecutor(1) as beside:
        planned = beside.submit(in_the_image, COMMAND_LINE, "plan", "-", stdin=SAMPLE.read_text())
        ours = hetserve("plan", str(SAMPLE))
    assert planned.result() == ours


def test_it_finds_the_installation_whole(kind: KindCluster, gpu_workers: list[str], tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kind.kubeconfig.read_text())
    kubeconfig.chmod(0o644)  # the image's user is not this one

    def well() -> bool | Unmet:
        said = json.loads(
            in_the_image(COMMAND_LINE, "doctor", "-o", "json", codes=(0, FOUND_SOMETHING), kubeconfig=kubeconfig)
        )
        amiss = [one for one in said["findings"] if one["level"] in ("Problem", "Unknown")]
        return (bool(said["findings"]) and not amiss) or Unmet(amiss)

    wait_until(well, 60, "the doctor to find everything whole")
    gpus = json.loads(in_the_image(COMMAND_LINE, "gpus", "-o", "json", kubeconfig=kubeconfig))["gpus"]

    assert set(gpu_workers) <= {gpu["node"] for gpu in gpus}
