"""Atomic writes: readers see one version, never a part."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from harness import controlplane
from harness.components import Component, write_account
from harness.files import write_whole
from harness.kube import Kube
from harness.ports import FIRST, Ports
from harness.state import ClusterState, StateFolder
from harness.tools import Toolset

EXTENDER = Component("hetserve-extender", "settings.yaml", "http://127.0.0.1:1/readyz")
ADMIN = {"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}]}


def apiserver(said: str) -> Kube:
    """One whose ConfigMaps and tokens all hold these words."""
    token: dict[str, Any] = {"status": {"token": said}}
    return cast(
        "Kube",
        SimpleNamespace(
            get=lambda *_: {"data": {"settings.yaml": said}},
            request=lambda *_, **__: SimpleNamespace(json=lambda: token),
        ),
    )


def settings(folder: StateFolder, said: str) -> Path:
    EXTENDER.write_settings(apiserver(said), folder)
    return EXTENDER.settings_file(folder)


def account(folder: StateFolder, said: str) -> Path:
    folder.path.mkdir(exist_ok=True)
    folder.kubeconfig.write_text(yaml.safe_dump(ADMIN))
    return write_account(apiserver(said), folder, "robot")


def state(folder: StateFolder, said: str) -> Path:
    folder.save(ClusterState(Ports.block_from(FIRST + len(said))))
    return folder.path / "state.json"


@pytest.mark.parametrize("write", [settings, account, state])
def test_whoever_opened_a_file_before_reads_all_of_the_old_one(
    tmp_path: Path, write: Callable[[StateFolder, str], Path]
) -> None:
    folder = StateFolder(tmp_path / "state")
    path = write(folder, "the first words")
    before = path.read_text()
    with path.open() as reader:
        assert write(folder, "other") == path
        assert reader.read() == before
    assert path.read_text() != before
    assert [beside.name for beside in path.parent.iterdir() if beside.name.startswith(".")] == []


def test_a_control_plane_starts_from_whole_files(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "state")
    paths = [folder.path / name for name in ("audit-policy.yaml", "kwokctl.yaml")]
    for path in paths:
        write_whole(path, "what was there before\n")
    no_tools = cast("Toolset", defaultdict(lambda: "false"))
    with paths[0].open() as policy, paths[1].open() as options:
        with pytest.raises(RuntimeError, match="could not start"):
            controlplane.start(no_tools, Ports.block_from(FIRST), folder)
        assert (policy.read(), options.read()) == ("what was there before\n",) * 2
    assert yaml.safe_load(paths[0].read_text()) == controlplane.AUDIT_POLICY


def test_a_secret_is_its_owners_alone_from_the_first_byte_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modes = []
    replace = Path.replace

    def seen(fresh: Path, path: Path) -> Path:
        modes.append(fresh.stat().st_mode & 0o777)
        return replace(fresh, path)

    monkeypatch.setattr(Path, "replace", seen)
    path = account(StateFolder(tmp_path / "state"), "secret")
    assert modes == [path.stat().st_mode & 0o777] == [0o600]
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_for_everybody_can_be_read_by_everybody(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "settings.yaml"
    write_whole(path, "port: 1\n")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("port: 1\n", 0o644)


def test_what_cannot_be_written_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    write_whole(path, "port: 1\n")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "half of it" * 10_000 + "\ud800")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("settings.yaml", "port: 1\n")]
