"""Commands of the pages that need no cluster are run as they stand there, each once.

Files that a page takes for granted (`services.yaml`, `dump.json`) are made here; those that a page shows are taken from
it. Which these are, documented_commands.py says.
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

from documented import ROOT, shown
from documented_commands import OFFLINE
from hetserve.base.units import Seconds
from hetserve.cli.app import app
from hetserve.cli.profiles.reference_fang import fang_manifests
from hetserve.dispatch.joining.weights import shipped_weights
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.log.journal import JournaledPlacer, plain
from readers_desk import DAY, runs_of_sharing
from testing.cluster import gpu_node, gpu_pod
from testing.data import reference_data
from testing.scenes import node

Json = dict[str, Any]
NO_PLAN: Final = 3
QUICKER: Final = {
    "autoscale": ("--service", "resnet50"),
    "compare": ("--queries", "1000", "--seeds", "1"),
    "search": ("--queries", "1000", "--seeds", "1", "--evaluations", "3"),
    "simulate": ("--queries", "1000", "--seeds", "1"),
    "train": ("--updates", "1"),
}
"""Later options win: the same commands with less effort, as the pages' own figures are held by other tests."""
SLOW: Final = (
    "hetserve autoscale services.yaml --load day.csv --plot day.svg",
    "hetserve autoscale services.yaml --load day.csv --latency-factor 1.3",
    "hetserve compare manifests/samples/rm2.yaml --plot compare.png",
    "hetserve compare manifests/samples/rm2.yaml --planners flow,homogeneous --policies hetserve,kairos -o json",
    "hetserve compare mt-wnd.yaml --planners flow,kairos,homogeneous --plot mt-wnd.png",
    "hetserve plan manifests/samples/rm2.yaml --frontier --plot frontier.png",
    "hetserve plan manifests/samples/rm2.yaml --plot plan.png",
    "hetserve plan manifests/samples/rm2.yaml --load 100",
    "hetserve plan manifests/samples/rm2.yaml",
    "hetserve simulate manifests/samples/rm2.yaml --find-allowable --plot held.png",
)
"""The same options are held by tests/unit/cli, the last two commands by tests/unit/planning/test_decision_doc.py."""


def offline() -> list[str]:
    """What hetserve is asked, each once, whatever shell or program is around it."""
    return list(dict.fromkeys(command for row in OFFLINE for command in shown(f"```sh\n{row}\n```\n")))


def tiered() -> list[Any]:
    """Those that take seconds are of the deep tier."""
    return [pytest.param(text, marks=pytest.mark.deep) if text in SLOW else text for text in offline()]


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
    (folder / "fang.yaml").write_text(yaml.safe_dump_all(fang_manifests()))
    (folder / "weights.json").write_text(json.dumps(shipped_weights()[-1].as_json()))
    (folder / "day.csv").write_text(DAY)
    (folder / "runs.csv").write_text(runs_of_sharing())
    samples = [(batch, 5 + 0.25 * batch + 0.1 * (at % 3)) for batch in (1, 20, 100, 500) for at in range(12)]
    (folder / "samples.csv").write_text("batch,latency_ms\n" + "".join(f"{b},{ms:.3f}\n" for b, ms in samples))
    (folder / "dump.json").write_text(json.dumps(placement_dump()))
    return folder


@pytest.mark.parametrize("command", tiered(), ids=lambda text: text.removeprefix("hetserve "))
def test_a_command_of_a_page_does_what_it_is_shown_for(
    command: str, desk: Path, monkeypatch: pytest.MonkeyPatch
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
    result = CliRunner().invoke(app, [*words, *QUICKER.get(words[0], ())])
    assert result.exit_code in (0, NO_PLAN), f"{result.output}{result.stderr}{result.exception!r}"
    assert result.output or files
    assert [path for path in files if not path.is_file()] == []


def test_every_row_of_the_table_asks_hetserve_something() -> None:
    assert len(offline()) > 20
    assert [row for row in OFFLINE if "hetserve" not in row or not list(shown(f"```sh\n{row}\n```\n"))] == []
