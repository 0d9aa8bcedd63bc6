"""Commands of the pages that need no cluster are run as they stand there, each once.

Files that a page takes for granted (`services.yaml`, `dump.json`) are made here; those that a page shows are taken from
it.
"""

from __future__ import annotations

import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from click.testing import CliRunner

from documented import FENCED, PAGES, ROOT, shown
from hetserve.base.units import Seconds
from hetserve.cli.app import app
from hetserve.placement import NodeEventHandler, PodEventHandler
from hetserve.placement.log.journal import JournaledPlacer, plain
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.record import decided_on_record
from hetserve.scaling.record.ring import appended, ring_manifest
from hetserve.testing.cluster import gpu_node, gpu_pod
from hetserve.testing.data import reference_data
from hetserve.testing.scaling import facts, steady
from hetserve.testing.scenes import node

Json = dict[str, Any]
BY_ANOTHER_TEST: Final = {"getting-started.md"}
"""Run whole by e2e/test_the_first_hour_works.py."""
WITH_A_CLUSTER: Final = ("doctor", "explain", "gpus", "placement dump", "queue", "wait", "why")
"""Commands that ask an API server, unless they are given a file by --from."""
NO_PLAN: Final = 3
QUICKER: Final = {
    "compare": ("--queries", "1000", "--seeds", "1"),
    "search": ("--queries", "1000", "--seeds", "1", "--evaluations", "3"),
    "simulate": ("--queries", "1000", "--seeds", "1"),
}
"""Later options win: the same commands with less effort, as the pages' own figures are held by other tests."""


def needs_a_cluster(command: str) -> bool:
    return command.removeprefix("hetserve ").startswith(WITH_A_CLUSTER) and "--from" not in command


def offline() -> list[tuple[str, str]]:
    """(page, command) of each that is run here, the first page that shows it."""
    found: dict[str, str] = {}
    for page in PAGES:
        if page.name not in BY_ANOTHER_TEST:
            for command in shown(page.read_text(encoding="utf-8")):
                if not needs_a_cluster(command):
                    found.setdefault(command.strip(), page.name)
    return [(page, command) for command, page in found.items()]


def from_page(page: str, *, language: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return [block for found, block in FENCED.findall(text) if found == language]


def placement_dump() -> Json:
    """Of a pod that waits on a full node, with the log of how it was refused."""
    log: list[Any] = []
    placer = JournaledPlacer(lambda: Seconds(1.0), Seconds(30.0), log.append)
    log.append(placer.header(1767225700.0))
    nodes, pods = [gpu_node(gpus=1)], [gpu_pod("full", memory_mib=32000, node="n0", gpu="0"), gpu_pod("waiting")]
    NodeEventHandler(placer).replace(nodes)
    PodEventHandler(placer).replace(pods[:1])
    placer.filter(pods[1], ["n0"])
    items = [*({"kind": "Node", **one} for one in nodes), *({"kind": "Pod", **one} for one in pods)]
    return {"kind": "List", "dump": "PlacementDump", "items": items, "log": json.loads(json.dumps(plain(log)))}


def decision_record() -> str:
    """A ConfigMap of records, as kubectl prints it."""
    _, made = decided_on_record("resnet50", "team", facts(steady(60.0), {"t4": 2}), Answers())
    assert made is not None
    owner = {"kind": "InferenceService", "name": "resnet50", "uid": "u"}
    return json.dumps(ring_manifest(appended((), made), "resnet50", "team", owner))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the tree's manifests and what a reader has by then."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "manifests").symlink_to(ROOT / "manifests")
    sample = (ROOT / "manifests" / "samples" / "hetsev.yaml").read_text(encoding="utf-8")
    kept = [one for one in yaml.safe_load_all(sample) if one["metadata"]["name"] != "transformer"]
    (folder / "services.yaml").write_text(yaml.safe_dump_all(kept))
    kinds = [one["metadata"]["name"] for one in kept if one["kind"] == "InstanceType"]
    nodes = [node(f"{kind}-{at}", kind, gpus=2, pods=8) for kind in kinds for at in range(4)]
    (folder / "nodes.yaml").write_text(yaml.safe_dump({"kind": "List", "items": nodes}))
    (folder / "day.csv").write_text("time_s,qps\n0,40\n60,40\n120,40\n180,40\n")
    heading, *rows = "".join(from_page("how-to-measure-sharing.md", language="csv")).splitlines()
    (folder / "runs.csv").write_text("\n".join([heading, *rows * 20]) + "\n")
    samples = [(batch, 5 + 0.25 * batch + 0.1 * (at % 3)) for batch in (1, 20, 100, 500) for at in range(12)]
    (folder / "samples.csv").write_text("batch,latency_ms\n" + "".join(f"{b},{ms:.3f}\n" for b, ms in samples))
    (folder / "dump.json").write_text(json.dumps(placement_dump()))
    return folder


@pytest.mark.parametrize(("page", "command"), offline(), ids=lambda text: text.removeprefix("hetserve "))
def test_a_command_of_a_page_does_what_it_is_shown_for(
    page: str, command: str, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk)
    words = shlex.split(command)[1:]
    if "mt-wnd.yaml" in words and "-o" not in words:  # made of the measurements by the page's command before
        kairos = str(reference_data("kairos/latency.csv").parent)
        made = CliRunner().invoke(app, ["reference", "kairos", "--data", kairos, "--model", "MT-WND"])
        Path("mt-wnd.yaml").write_text(made.stdout)
    if "DIR" in words:
        words[words.index("DIR")] = str(reference_data("kairos/latency.csv").parent)
    pairs = list(pairwise(words))
    files = [Path(file) for option, file in pairs if option in ("--plot", "-o") and "." in file]
    stdin = decision_record() if words[-1] == "-" else None
    result = CliRunner().invoke(app, [*words, *QUICKER.get(words[0], ())], input=stdin)
    assert result.exit_code in (0, NO_PLAN), f"{page}: {result.output}{result.stderr}{result.exception!r}"
    assert result.output or files
    assert [path for path in files if not path.is_file()] == []


def test_every_page_with_commands_is_looked_at_and_what_is_left_out_needs_a_cluster() -> None:
    run = {command for _, command in offline()}
    assert len(run) > 20
    assert not any(needs_a_cluster(command) for command in run)
    assert needs_a_cluster("hetserve gpus --watch")
    assert not needs_a_cluster("hetserve why waiting --from dump.json")
