"""State of a cluster on disk, so that a later process can stop exactly what was started.

STATE/state.json         ports, owner, processes
STATE/kubeconfig         the administrator's
STATE/accounts/NAME      one kubeconfig per service account
STATE/settings/NAME.yaml the components' settings
STATE/logs/NAME.log      the components' output
STATE/prometheus/        its targets, a file for each, and its data
STATE/kwok/              etcd's data and the logs of the control plane
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.files import write_whole
from harness.ports import Ports
from harness.processes import ProcessRecord, command_line, end

COMPONENT_GRACE: Final = 10.0
PART_GRACE: Final = 90.0
"""Of a part of the control plane: the API server gives what is under way a minute."""
CLUSTER_NAME: Final = "hetserve"


@dataclass(frozen=True, slots=True)
class ClusterState:
    """state.json; `owner`: its end makes the cluster stale (none: the demo)."""

    ports: Ports
    owner: ProcessRecord | None = None
    processes: tuple[ProcessRecord, ...] = field(default=())

    def with_process(self, record: ProcessRecord) -> ClusterState:
        return replace(self, processes=(*(p for p in self.processes if p.name != record.name), record))

    def process(self, name: str) -> ProcessRecord | None:
        return next((record for record in self.processes if record.name == name), None)


class StateFolder:
    """The state directory of one cluster."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()

    @property
    def kubeconfig(self) -> Path:
        return self.path / "kubeconfig"

    @property
    def kwok(self) -> Path:
        return self.path / "kwok"

    @property
    def kwok_cluster(self) -> Path:
        return self.kwok / "clusters" / CLUSTER_NAME

    def account(self, name: str) -> Path:
        return self.path / "accounts" / name

    def log(self, name: str) -> Path:
        return self.path / "logs" / f"{name}.log"

    def save(self, state: ClusterState) -> None:
        write_whole(self.path / "state.json", json.dumps(asdict(state), indent=1) + "\n")

    def load(self) -> ClusterState | None:
        """None if missing or unreadable."""
        try:
            raw = json.loads((self.path / "state.json").read_text())
            return ClusterState(
                ports=Ports(**raw["ports"]),
                owner=None if raw["owner"] is None else ProcessRecord(**raw["owner"]),
                processes=tuple(ProcessRecord(**record) for record in raw["processes"]),
            )
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return None

    def control_plane(self) -> tuple[ProcessRecord, ...]:
        """Processes that kwokctl started, by pid files; their arguments name this folder."""
        found = []
        for path in sorted(self.kwok_cluster.glob("pids/*.pid")):
            pid = int(path.read_text().strip() or 0)
            record = ProcessRecord.of(path.stem, pid) if pid else None
            if record is not None and str(self.kwok_cluster) in command_line(pid):
                found.append(record)
        return tuple(found)

    def destroy(self) -> None:
        """Stops what was started for this folder and removes it."""
        state = self.load()
        control_plane = self.control_plane()
        remembered = state.processes if state else ()
        ours = {record.pid for record in control_plane}
        components = [record for record in remembered if record.pid not in ours]
        end(components, grace=COMPONENT_GRACE)
        # Its data is deleted next.
        end(control_plane, grace=0)
        shutil.rmtree(self.path, ignore_errors=True)


def sweep(folders: Iterable[Path]) -> list[Path]:
    """Removes clusters whose owner is gone."""
    removed = []
    for path in sorted(folders):
        folder = StateFolder(path)
        state = folder.load()
        if state is not None and state.owner is not None and not state.owner.alive():
            folder.destroy()
            removed.append(path)
    return removed
