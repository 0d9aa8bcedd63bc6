"""Prometheus beside the control plane: its settings, its targets, its command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
import yaml

from harness import components
from harness.beside import PROMETHEUS, prometheus_component, remove_target, write_target
from harness.files import write_whole
from harness.kube import Kube
from harness.ports import FIRST, Ports
from harness.state import StateFolder
from harness.tools import Toolset

PORTS = Ports.block_from(FIRST)
TOOLS = Toolset({PROMETHEUS: Path("/tools/prometheus")})
NO_KUBE = cast("Kube", None)


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path / "state")


def test_it_scrapes_each_second_what_the_target_files_name_and_keeps_their_labels(folder: StateFolder) -> None:
    prometheus = prometheus_component(PORTS)
    prometheus.write_settings(NO_KUBE, folder)
    settings = yaml.safe_load(prometheus.settings_file(folder).read_text())
    assert settings["global"]["scrape_interval"] == "1s"
    (job,) = settings["scrape_configs"]
    assert job["honor_labels"] is True
    assert job["file_sd_configs"] == [{"files": [f"{folder.path}/prometheus/targets/*.json"]}]


def test_it_listens_on_this_machine_only_and_looks_back_fifteen_seconds(folder: StateFolder) -> None:
    program, *flags = prometheus_component(PORTS).command(folder, TOOLS, PORTS)
    assert program == "/tools/prometheus"
    given = dict(flag.split("=", 1) for flag in flags)
    assert given["--web.listen-address"] == f"127.0.0.1:{PORTS.prometheus}"
    assert given["--query.lookback-delta"] == "15s"
    assert given["--storage.tsdb.path"].startswith(f"{folder.path}/")


def test_the_folder_of_targets_is_there_before_prometheus_watches_it(folder: StateFolder) -> None:
    prometheus_component(PORTS).write_settings(NO_KUBE, folder)
    assert (folder.path / "prometheus" / "targets").is_dir()


def test_a_target_is_one_whole_file_which_replaces_the_one_before(folder: StateFolder) -> None:
    write_target(folder, "twin", 9000)
    write_target(folder, "twin", 9001, {"namespace": "shop"})
    write_target(folder, "other", 9002)
    targets = folder.path / "prometheus" / "targets"
    assert sorted(path.name for path in targets.iterdir()) == ["other.json", "twin.json"]
    groups = json.loads((targets / "twin.json").read_text())
    assert groups == [{"targets": ["127.0.0.1:9001"], "labels": {"job": "twin", "namespace": "shop"}}]
    remove_target(folder, "twin")
    remove_target(folder, "twin")
    assert [path.name for path in targets.iterdir()] == ["other.json"]


def test_every_process_that_exports_metrics_names_its_port_once() -> None:
    every = (*components.components(PORTS), *components.standbys(PORTS))
    exported = {one.process: one.metrics_port for one in every if one.metrics_port is not None}
    assert exported == {
        "hetserve-extender": PORTS.extender_probe,
        "hetserve-operator": PORTS.operator_probe,
        "hetserve-extender-standby": PORTS.standby_probe,
        "hetserve-operator-standby": PORTS.operator_standby_probe,
    }


def test_a_state_of_an_earlier_version_says_what_to_do(folder: StateFolder) -> None:
    write_whole(folder.path / "state.json", "{}")
    old = Ports(*PORTS.all()[:12])
    with pytest.raises(RuntimeError, match="of an earlier version, without a port for prometheus: make a new one"):
        prometheus_component(old).write_settings(NO_KUBE, folder)


def test_the_ports_of_a_cluster_fit_into_its_block() -> None:
    assert len(set(PORTS.all())) == len(PORTS.all()) <= 16
    assert PORTS.prometheus > 0


@pytest.mark.parametrize(
    ("chart", "given"),
    [
        ("metrics: {prometheus: {url: ''}}", {"url": f"http://127.0.0.1:{PORTS.prometheus}", "interval": "1s"}),
        ("operator: {}", None),
    ],
)
def test_a_chart_that_measures_is_told_where(
    chart: str, given: dict[str, str] | None, folder: StateFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "values.yaml").write_text(chart)
    monkeypatch.setattr(components, "CHART", tmp_path)
    assert components.values(PORTS, folder).get("metrics", {}).get("prometheus") == given
