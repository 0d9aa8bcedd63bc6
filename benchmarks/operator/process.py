"""An operator of some tree as a process: its start, its metrics, what it takes of the machine."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import yaml
from benchmarks.operator.scrape import Scrape
from benchmarks.placement.cluster.load import cpu_seconds

from harness import components, controlplane
from harness.cluster import Cluster
from harness.processes import ProcessRecord, end, spawn, tail
from hetserve.api.names import SYSTEM_NAMESPACE

REPOSITORY: Final = Path(__file__).resolve().parents[2]
OPERATOR: Final = "hetserve-operator"
PRODUCT: Final = ("operator", "src", "shell_kit", "charts")
GRACE: Final = 30.0


@dataclass(frozen=True, slots=True)
class Tree:
    """A checkout with its own `.venv`, and the name of its operator in the report."""

    name: str
    path: Path

    @classmethod
    def parse(cls, text: str) -> Tree:
        """Reads NAME=FOLDER. Raises ValueError if the folder has no operator."""
        name, _, folder = text.partition("=")
        tree = cls(name, Path(folder).resolve())
        if not name or not tree.program.is_file():
            raise ValueError(f"{text}: NAME=FOLDER of a tree in which `make setup` ran")
        return tree

    @property
    def program(self) -> Path:
        return self.path / ".venv" / "bin" / OPERATOR

    @property
    def commit(self) -> str:
        """The commit, with "+" if the product differs from it."""
        git = ["git", "-C", str(self.path)]
        head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], check=True, capture_output=True, text=True)
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *PRODUCT], check=False).returncode
        return head.stdout.strip() + ("+" if changed else "")


@dataclass(frozen=True, slots=True)
class Usage:
    """What processes have used: processor time [s] and resident memory [MiB], of the operator and of its children."""

    cpu: float
    rss: float
    children_cpu: float
    children_rss: float


class OperatorProcess:
    """A running operator. began: time.perf_counter() when it was started."""

    def __init__(self, cluster: Cluster, record: ProcessRecord, log: Path) -> None:
        self.began = time.perf_counter()
        self.url = f"http://{components.HOST}:{cluster.ports.operator_probe}"
        self._http = httpx.Client(timeout=10.0, trust_env=False)
        self._record = record
        self._log = log

    def check(self) -> None:
        """Raises RuntimeError with the end of the log if the process has ended."""
        if not self._record.alive():
            raise RuntimeError(f"the operator ended:\n{tail(self._log)}")

    def ready(self) -> bool:
        """Whether it says that it is ready."""
        self.check()
        try:
            return self._http.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def scrape(self) -> Scrape:
        """Its metrics; empty ones while nobody answers."""
        self.check()
        try:
            return Scrape.of(self._http.get(f"{self.url}/metrics").text)
        except httpx.TransportError:
            return Scrape()

    def usage(self) -> Usage:
        """Raises FileNotFoundError if it has ended; a child that ends meanwhile counts for nothing."""
        below = []
        for child in descendants(self._record.pid):
            with suppress(FileNotFoundError, ProcessLookupError):
                below.append((cpu_seconds(child), rss_mib(child)))
        return Usage(
            cpu_seconds(self._record.pid),
            rss_mib(self._record.pid),
            sum(cpu for cpu, _ in below),
            sum(rss for _, rss in below),
        )

    def stop(self) -> None:
        """Ends it by SIGTERM. Raises RuntimeError if it had to be killed."""
        self._http.close()
        if end([self._record], GRACE):
            raise RuntimeError(f"the operator did not end within {GRACE:g} s of SIGTERM")


@contextmanager
def operator_of(cluster: Cluster, tree: Tree, values: Sequence[str] = ()) -> Iterator[OperatorProcess]:
    """The operator of a tree during the block, with the settings of the tree's own chart. values: NAME=VALUE."""
    settings = cluster.folder.path / "settings" / f"{OPERATOR}-{tree.name}.yaml"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text(_settings(cluster, tree, values), encoding="utf-8")
    account = str(cluster.folder.account(OPERATOR))
    command = [str(tree.program), "--config", str(settings), "--kubeconfig", account, "--host", components.HOST]
    log = cluster.folder.log(f"{OPERATOR}-{tree.name}")
    process = OperatorProcess(cluster, spawn(OPERATOR, command, log, controlplane.environment(cluster.folder)), log)
    try:
        yield process
    except Exception as error:
        error.add_note(f"the log of operator {tree.name!r} ends:\n{tail(log)}")
        raise
    finally:
        process.stop()


def _settings(cluster: Cluster, tree: Tree, values: Sequence[str]) -> str:
    """The settings that the chart of the tree would install. Raises RuntimeError with helm's message."""
    chart = tree.path / "charts" / "hetserve"
    command = [cluster.tools["helm"], "template", components.RELEASE, str(chart)]
    command += ["--namespace", SYSTEM_NAMESPACE]
    # No extender runs, so none says in the scheduler's Lease that it books compute.
    alone = ("scheduler.replicas=1", "scheduler.leaderElection.enabled=false")
    given = [f"operator.probePort={cluster.ports.operator_probe}", *alone, *values]
    if "probes" in yaml.safe_load((chart / "values.yaml").read_text(encoding="utf-8")):  # an earlier chart has none
        given.append("probes.authorization=none")
    for value in given:
        command += ["--set", value]
    env = controlplane.environment(cluster.folder)
    done = subprocess.run(command, env=env, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"helm template of {chart} failed: {done.stderr.strip()}")
    documents = (document for document in yaml.safe_load_all(done.stdout) if document)
    maps = (d for d in documents if d["kind"] == "ConfigMap" and d["metadata"]["name"] == OPERATOR)
    return str(next(maps)["data"]["settings.yaml"])


def descendants(pid: int) -> list[int]:
    """Processes below a process."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found, layer = [], {pid}
    while layer := {child for child, parent in parents.items() if parent in layer}:
        found += sorted(layer)
    return found


def rss_mib(pid: int) -> float:
    """Resident memory of a process [MiB]."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20
