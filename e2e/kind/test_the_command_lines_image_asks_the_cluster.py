"""Promise: the image of the command line plans as the wheel does and asks a cluster, where it can write nothing."""

from __future__ import annotations

import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
from images import build
from images.engines import choose

from harness import limits
from harness.commands import hetserve
from harness.components import ROOT
from harness.kind import KindCluster
from harness.waiting import Unmet, wait_until

pytestmark = pytest.mark.beside

SAMPLE: Final = ROOT / "manifests" / "samples" / "rm2.yaml"
FOUND_SOMETHING: Final = 3
"""Exit code of the doctor."""


def in_the_image(*command: str, kubeconfig: Path | None = None, stdin: str = "") -> str:
    """What the image prints. kubeconfig: handed in, by an address of this machine."""
    engine = choose(os.environ.get("ENGINE") or None).name
    if engine == "buildah":
        pytest.skip("buildah builds the images and runs none")
    given = (
        () if kubeconfig is None else ("--volume", f"{kubeconfig}:/kubeconfig:ro", "--env", "KUBECONFIG=/kubeconfig")
    )
    words = (
        engine,
        "run",
        "--rm",
        "--interactive",
        "--read-only",
        "--tmpfs=/tmp",
        "--network",
        "host",
        *given,
        build.tag_of("cli"),
    )
    done = subprocess.run(
        [*words, *command], input=stdin, capture_output=True, text=True, check=False, timeout=limits.COMMAND
    )
    assert done.returncode in (0, FOUND_SOMETHING), done.stderr
    return done.stdout


def test_it_plans_as_the_wheel_does() -> None:
    with ThreadPoolExecutor(1) as beside:
        planned = beside.submit(in_the_image, "plan", "-", stdin=SAMPLE.read_text())
        ours = hetserve("plan", str(SAMPLE))
    assert planned.result() == ours


def test_it_finds_the_installation_whole(kind: KindCluster, gpu_workers: list[str], tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kind.kubeconfig.read_text())
    kubeconfig.chmod(0o644)  # the image's user is not this one

    def well() -> bool | Unmet:
        said = json.loads(in_the_image("doctor", "-o", "json", kubeconfig=kubeconfig))
        amiss = [one for one in said["findings"] if one["level"] in ("Problem", "Unknown")]
        return (bool(said["findings"]) and not amiss) or Unmet(amiss)

    wait_until(well, limits.ROLLOUT, "the doctor to find everything whole")
    gpus = json.loads(in_the_image("gpus", "-o", "json", kubeconfig=kubeconfig))["gpus"]

    assert set(gpu_workers) <= {gpu["node"] for gpu in gpus}
