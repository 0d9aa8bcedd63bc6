"""The demo: a control plane with hetserve and the sample services.

python -m harness.demo up       start (or repair) it, apply the samples, ask one, show them; it keeps running
python -m harness.demo status   show them again
python -m harness.demo load     play a day of load on it in minutes: live view, picture, figures
python -m harness.demo down     stop exactly what was started, remove its state
python -m harness.demo stop|start|kill|freeze|thaw COMPONENT
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import math
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import httpx
from rich.console import Console
from rich.text import Text

from harness import beside, faults, limits, stages, tools
from harness.cluster import Cluster
from harness.components import HOST, ROOT, write_account
from harness.controlplane import PARTS
from harness.faults import Action, Condition
from harness.files import write_whole
from harness.gobuild import ToolError
from harness.kube import Manifest, Manifests, read_manifests
from harness.load.options import DESCRIPTION, Wanted, add_options, wanted
from harness.nodes import DEMO
from harness.picture import gpu_picture, gpu_rows, is_provisional, queue_line, ready_of, services_table, sharing
from harness.pins import CONTROL_PLANE, PROMETHEUS
from harness.processes import tail
from harness.state import StateFolder
from harness.waiting import Unmet, WaitTimeoutError, wait_until
from hetserve.api.names import LABEL_SERVICE, QUEUE_GATE

SAMPLES: Final = ROOT / "manifests" / "samples"
QUERY: Final = ROOT / "manifests" / "queries" / "digit.json"
ASKED: Final = "http://digits.default/v2/models/digits/infer"
SAY_EVERY: Final = 2.0
LAUNCH_JITTER: Final = 0.1
LOGGED: Final = {"extender": {"placementLog": "16Mi"}}


class DemoError(RuntimeError):
    """Why the demo could not start, and where to look."""


class DemoProgress:
    """Lines with the time since the start."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._started = clock()

    def say(self, text: str) -> None:
        print(f"[{self._clock() - self._started:5.1f} s] {text}", flush=True)


def up(state: Path, *, with_prometheus: bool = False, launch_scale: float | None = None) -> int:
    """Starts or repairs the demo, and shows it.

    with_prometheus: beside it. launch_scale: pods are Ready after so many of their type's launch times; None: at once.
    """
    progress = DemoProgress()
    toolset = tools.provide((*CONTROL_PLANE, PROMETHEUS) if with_prometheus else CONTROL_PLANE, out=sys.stdout)
    cluster = _control_plane(state, toolset, progress)
    try:
        _kubectl_beside(cluster)
        cluster.add_nodes(*DEMO)
        progress.say(f"{len(cluster.kube.list('nodes'))} nodes are ready: {', '.join(b.name for b in DEMO)}")
        if with_prometheus:
            cluster.start_component(beside.PROMETHEUS)
            progress.say(f"Prometheus answers on port {cluster.ports.prometheus}")
        _hetserve(cluster, progress)
        _workers(cluster)
        _launch_times(cluster, launch_scale)
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(SAMPLES))
        progress.say(f"applied {', '.join(path.name for path in sorted(SAMPLES.glob('*.yaml')))}")
        _wait_for_services(cluster, progress)
        _ask(cluster, progress)
        show(cluster)
    finally:
        cluster.kube.close()
    return 0


def load(state: Path, wanted: Wanted) -> int:
    """Plays a load trace on the demo, which it starts or repairs, without the samples. Returns the exit code."""
    from harness.load.play import play  # with planners and matplotlib, which no other command needs

    progress = DemoProgress()
    with _one_at_a_time(state):
        toolset = tools.provide((*CONTROL_PLANE, PROMETHEUS), out=sys.stdout)
        cluster = _control_plane(state, toolset, progress)
        with closing(cluster.kube):
            _kubectl_beside(cluster)
            cluster.start_component(beside.PROMETHEUS)
            _hetserve(cluster, progress)
    # From here on its components may be stopped, killed and frozen.
    with _one_at_a_time(state, "plays a load on"), _attached(state) as cluster:
        return play(cluster, wanted, progress.say)


def _control_plane(state: Path, toolset: tools.Toolset, progress: DemoProgress) -> Cluster:
    """The running control plane; a partial one is replaced."""
    if (cluster := Cluster.attached(state, toolset)) is not None:
        cluster.wait_for_control_plane()
        progress.say("the control plane runs already")
        return cluster
    if state.exists():
        progress.say("clearing what an earlier demo left")
        StateFolder(state).destroy()
    progress.say("starting etcd, apiserver, controller manager, scheduler and fake nodes")
    cluster = Cluster.start(state, toolset=toolset)
    progress.say(f"the control plane is up on port {cluster.ports.apiserver}")
    return cluster


def _kubectl_beside(cluster: Cluster) -> None:
    link = cluster.folder.path / "bin" / "kubectl"
    link.parent.mkdir(exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(cluster.tools["kubectl"])


def _hetserve(cluster: Cluster, progress: DemoProgress) -> None:
    """Installs or upgrades the chart and runs every component."""
    cluster.install_chart(LOGGED, fresh=False)
    for name in sorted(cluster.refresh_settings()):
        if cluster.running(name):
            progress.say(f"{name} has new settings: starting it anew")
            cluster.stop_component(name)
    write_account(cluster.kube, cluster.folder, beside.ROUTER)
    names = [*(component.name for component in cluster.components()), beside.ROUTER]
    for name in names:
        cluster.start_component(name, wait=False)
    for name in names:
        try:
            cluster.wait_for_component(name)
        except WaitTimeoutError:
            progress.say(f"{name} runs and does not answer: starting it anew")
            cluster.kill_component(name)
            cluster.start_component(name)
    progress.say("hetserve is installed: extender, scheduler, operator and router are ready")


def _workers(cluster: Cluster) -> None:
    """Runs the reference workers of pods; and writes how curl finds services without the cluster's DNS."""
    cluster.kube.apply_all(stages.default_stages())
    cluster.start_component(beside.KUBELET, wait=False)
    connect = f'connect-to = "::{HOST}:{cluster.ports.router}"'
    write_whole(cluster.folder.path / "curlrc", "\n".join([connect, 'noproxy = "*"', "silent", "show-error", ""]))


def _ask(cluster: Cluster, progress: DemoProgress) -> None:
    """One query, once it is answered."""
    url = httpx.URL(ASKED)

    def answered() -> httpx.Response | Unmet:
        there = url.copy_with(host=HOST, port=cluster.ports.router)
        answer = httpx.post(there, content=QUERY.read_bytes(), headers={"host": url.host}, trust_env=False)
        return answer if answer.status_code == 200 else Unmet(f"{answer.status_code} {answer.text}")

    answer = wait_until(answered, limits.REACTION, f"an answer of {ASKED}")
    labels = answer.json()["outputs"][0]["data"]
    progress.say(f"{ASKED}: labels {labels}, by {answer.headers['hetserve-instance']}")


def _launch_times(cluster: Cluster, scale: float | None) -> None:
    """Applies the samples' InstanceTypes first, so that no pod of theirs is Ready sooner."""
    if not cluster.kube.serves("stages"):
        if scale is not None:
            raise DemoError("this demo is of an earlier version and plays no launch times: `make demo-down` first")
        return
    types = [d for d in read_manifests(*sorted(SAMPLES.glob("*.yaml"))) if d["kind"] == "InstanceType"]
    names = [type_["metadata"]["name"] for type_ in types]
    if scale is None:
        cluster.launch_at_once(*names)
    else:
        cluster.apply(types)
        cluster.play_launch_times(*names, scale=scale, jitter=LAUNCH_JITTER)


def _services(cluster: Cluster) -> Manifests:
    return cluster.kube.list("inferenceservices")


def _samples(cluster: Cluster) -> Manifests:
    documents = read_manifests(*sorted(SAMPLES.glob("*.yaml")))
    names = {d["metadata"]["name"] for d in documents if d["kind"] == "InferenceService"}
    return [service for service in _services(cluster) if service["metadata"]["name"] in names]


def _wait_for_services(cluster: Cluster, progress: DemoProgress) -> None:
    """Waits until all services are Ready with their tried plans. Raises DemoError with their conditions."""
    said: tuple[str, float] = ("", 0.0)

    def ready() -> bool | Unmet:
        nonlocal said
        services = _samples(cluster)
        ready_now = [s for s in services if ready_of(s).get("status") == "True"]
        waiting = [s["metadata"]["name"] for s in services if s not in ready_now or is_provisional(s)]
        line = f"{len(ready_now)} of {len(services)} services are Ready, {_pods_line(cluster)}"
        if provisional := sum(map(is_provisional, services)):
            line += f", {provisional} {'plan is' if provisional == 1 else 'plans are'} provisional: trials go on"
        now = time.monotonic()
        if line != said[0] and (now - said[1] >= SAY_EVERY or not waiting):
            said = (line, now)
            progress.say(line)
        return (bool(services) and not waiting) or Unmet(waiting)

    try:
        wait_until(ready, limits.PLANNED, "the sample services to be Ready with tried plans")
    except WaitTimeoutError:
        raise DemoError(_what_is_wrong(cluster)) from None


def _pods_line(cluster: Cluster) -> str:
    pods = cluster.pods(labels=LABEL_SERVICE)
    running = sum(pod["status"].get("phase") == "Running" for pod in pods)
    return f"{len(pods)} pods: {sum(map(_gated, pods))} wait at the gate, {running} run"


def _gated(pod: Manifest) -> bool:
    return {"name": QUEUE_GATE} in pod["spec"].get("schedulingGates", [])


def _what_is_wrong(cluster: Cluster) -> str:
    lines = [f"not every service became Ready with a tried plan within {limits.PLANNED:.0f} s:"]
    for service in _services(cluster):
        if ready_of(service).get("status") == "True" and not is_provisional(service):
            continue
        metadata = service["metadata"]
        lines.append(f"  {metadata['namespace']}/{metadata['name']}")
        conditions = cluster.conditions("hisvc", metadata["name"], metadata["namespace"]).values()
        lines += [f"    {condition}" for condition in conditions] or ["    no conditions: the operator never saw it"]
    for component in cluster.components():
        if not cluster.running(component.name):
            lines.append(f"  {component.name} ended:\n{tail(cluster.folder.log(component.name), 10)}")
    lines.append(f"the cluster runs on; logs are in {cluster.folder.path / 'logs'}, `make demo-down` removes it")
    return "\n".join(lines)


def show(cluster: Cluster) -> None:
    """Prints services, GPUs, queues, and further commands."""
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    rows = gpu_rows(cluster.kube.list("nodes"), cluster.gpu_holders())
    gated = sum(map(_gated, cluster.pods()))
    console.print()
    console.print(services_table(_services(cluster)))
    console.print()
    console.print(gpu_picture(rows))
    console.print(Text(sharing(rows)))
    console.print(Text(f"Queues: {_queues(cluster, gated)}"))
    console.print(Text(f"Processes: {faults.conditions_line(cluster)}"))
    console.print()
    state = _short(cluster.folder.path)
    kubectl = f"KUBECONFIG={state}/kubeconfig {state}/bin/kubectl"
    console.print(Text(f"Look further:  {kubectl} get hisvc", style="bold"))
    hetserve = _short(Path(sys.executable).parent) / "hetserve"
    console.print(Text(f"Play them:     {kubectl} get nodes -o yaml > nodes.yaml"))
    play = "simulate manifests/samples/hetsev.yaml --together --nodes nodes.yaml"
    console.print(Text(f"               {hetserve} {play}"))
    console.print(Text(f"Ask:           curl -K {state}/curlrc --json @{_short(QUERY)} {ASKED}"))
    console.print(Text(f"GPU ledger:    http://127.0.0.1:{cluster.ports.extender_probe}/ledger"))
    console.print(Text(f"Placement log: http://127.0.0.1:{cluster.ports.extender_probe}/log"))
    if cluster.running(beside.PROMETHEUS):
        console.print(Text(f"Prometheus:    http://127.0.0.1:{cluster.ports.prometheus}"))
    console.print(Text(f"Logs:          {state}/logs"))
    console.print(Text("Stop it:       make demo-down", style="bold"))


def _queues(cluster: Cluster, gated: int) -> str:
    if (now := faults.condition(cluster, "extender")) is not Condition.RUNS:
        return f"unknown, the extender {now}"
    return queue_line(cluster.extender("/metrics").text, gated)


def _short(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def status(state: Path) -> int:
    """Shows the demo. Raises DemoError."""
    with _attached(state) as cluster:
        if any(faults.condition(cluster, part) is not Condition.RUNS for part in PARTS):
            raise DemoError(f"the control plane cannot answer: {faults.conditions_line(cluster)}")
        show(cluster)
    return 0


def act(state: Path, action: Action, name: str) -> int:
    """Stops, starts, kills, freezes or thaws a component. Raises DemoError."""
    with _attached(state) as cluster:
        if (action, name) == (Action.START, beside.PROMETHEUS):
            cluster.tools = tools.provide((*CONTROL_PLANE, PROMETHEUS), out=sys.stdout)
        print(faults.act(cluster, action, name))
    return 0


@contextmanager
def _attached(state: Path) -> Iterator[Cluster]:
    """The running demo, whatever of it runs. Raises DemoError."""
    toolset = tools.find()
    cluster = Cluster.attached(state, toolset, whole=False) if toolset else None
    if cluster is None:
        raise DemoError("no demo runs here; `make demo` starts one")
    with closing(cluster.kube):
        yield cluster


def down(state: Path) -> int:
    if not state.exists():
        print("no demo runs here")
        return 0
    StateFolder(state).destroy()
    print("the demo is stopped and its state removed")
    return 0


@contextmanager
def _one_at_a_time(state: Path, does: str = "starts or stops") -> Iterator[None]:
    """Lock against concurrent calls that do the same."""
    digest = hashlib.sha256(f"{does} {state}".encode()).hexdigest()[:12]
    lock = Path(tempfile.gettempdir()) / f"hetserve-demo-{os.getuid()}-{digest}.lock"
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(f"another call {does} the demo in {state} right now") from None
        yield


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m harness.demo", description="A demo of hetserve on a real control plane."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    starts = commands.add_parser("up", help="start (or repair) it, apply the samples, ask one; it keeps running")
    starts.add_argument("--prometheus", action="store_true", help="run Prometheus beside it")
    starts.add_argument(
        "--launch-times",
        type=_scale,
        metavar="SCALE",
        help="pods are Ready after SCALE times the launchTime of their type (1: as declared); else at once",
    )
    plays = commands.add_parser("load", help="play a day of load on it in minutes", description=DESCRIPTION)
    add_options(plays)
    commands.add_parser("status", help="show them again")
    commands.add_parser("down", help="stop exactly what was started, remove its state")
    for action in Action:
        acts = commands.add_parser(action, help=faults.HELP[action], description=faults.HELP[action])
        acts.add_argument("component", choices=faults.NAMES, metavar="COMPONENT", help=", ".join(faults.NAMES))
    return parser


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not 0 <= scale < math.inf:
        raise argparse.ArgumentTypeError(f"{text}: must be a number of 0 or more")
    return scale


def _run(state: Path, given: argparse.Namespace) -> int:
    match given.command:
        case "up":
            return up(state, with_prometheus=given.prometheus, launch_scale=given.launch_times)
        case "status":
            return status(state)
        case "down":
            return down(state)
        case action:
            return act(state, Action(action), given.component)


def main(arguments: Sequence[str]) -> int:
    """Returns 0, or 1 after an error on stderr. Raises SystemExit(2) for arguments that do not fit."""
    parser = _parser()
    given = parser.parse_args(arguments)
    state = Path(os.environ.get("HETSERVE_DEMO_DIR", ROOT / ".demo")).resolve()
    try:
        if given.command == "load":
            return load(state, wanted(given, parser.error))
        with _one_at_a_time(state):
            return _run(state, given)
    except (ToolError, AssertionError, RuntimeError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except httpx.HTTPError as error:
        print(f"demo: {error}; is something that must answer stopped or frozen? See `status`", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; `make demo` goes on from here, `make demo-down` removes it", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
