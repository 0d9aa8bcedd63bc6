"""Plays a trace against the service of manifests/load, watches, and draws what was seen."""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live

from harness import limits
from harness.beside import TWIN
from harness.cluster import Cluster
from harness.components import ROOT
from harness.files import write_whole
from harness.kube import Manifests, read_manifests
from harness.load.drawing import draw
from harness.load.held import Held, Static, problem_of, static_plan
from harness.load.looking import Looker, Questions
from harness.load.options import Wanted
from harness.load.seen import merged
from harness.load.summary import Summary, document, table
from harness.load.view import PlainLines, Play, view
from harness.nodes import DAY
from harness.twin import Twin
from harness.waiting import Unmet, wait_until
from hetserve.api import manifests as api
from hetserve.base.units import parse_money

MANIFEST: Final = ROOT / "manifests" / "load" / "rm2-day.yaml"
EVERY: Final = 1.0
"""Seconds between looks."""
LEAST_QPS: Final = 1.0
PATIENCE: Final = "2s"
"""A client gives up a query that has waited so long: it is late long before."""
REFRESHES: Final = 4
INTERRUPTED: Final = 130

Say = Callable[[str], None]


class DayService:
    """The service that follows the load, as its manifest has it. wanted: whose first rate it begins with."""

    def __init__(self, wanted: Wanted) -> None:
        read = api.read_manifests((str(MANIFEST),))
        (self.spec,) = (one.spec for one in read.services)
        documents = read_manifests(MANIFEST)
        self.types = [one for one in documents if one["kind"] == "InstanceType"]
        (service,) = (copy.deepcopy(one) for one in documents if one["kind"] == "InferenceService")
        service["spec"]["load"]["expectedQPS"] = max(wanted.trace.rates[0] or 0.0, LEAST_QPS)
        self.rest: Manifests = [*(d for d in documents if d["kind"] == "ModelProfile"), service]
        self.name, self.namespace = service["metadata"]["name"], service["metadata"]["namespace"]
        self.type_names = [type_["metadata"]["name"] for type_ in self.types]
        self.problem = problem_of(read.services[0], read)

    def statics(self, peak: float) -> list[Static]:
        """Plans that hold the peak [queries/s] all day: used in full, and with the saturation of this service."""
        assert self.spec.scaling is not None
        used = (1.0, self.spec.scaling.saturation_share)
        return [found for one in used if (found := static_plan(self.problem, peak, one)) is not None]

    def play(self, wanted: Wanted) -> Play:
        budget, metrics = self.spec.budget, self.spec.metrics
        assert budget is not None
        assert metrics is not None
        allowed = round(1 - self.problem.slo.percentile / 100, 9)
        return Play(wanted, self.name, self.type_names, parse_money(budget.hourly), allowed, metrics.window_seconds)

    def questions(self) -> Questions:
        assert self.spec.metrics is not None
        return Questions(self.namespace, self.name, self.problem.slo.latency, self.spec.metrics.window_seconds)


def prepare(cluster: Cluster, wanted: Wanted, say: Say) -> DayService:
    """Applies the service anew, on nodes of its own, and waits until it is Ready. Raises WaitTimeoutError."""
    service = DayService(wanted)
    cluster.stop_component(TWIN)
    _clear(cluster, service)
    cluster.add_nodes(DAY)
    cluster.apply(service.types)
    cluster.play_launch_times(*service.type_names, jitter=0.25, drain=True)
    cluster.apply(service.rest)
    wait_until(lambda: _is_ready(cluster, service), limits.ROLLOUT, f"{service.name} to be Ready")
    say(f"{service.name} is Ready, on {len(DAY.node_names())} nodes of its own")
    return service


def _clear(cluster: Cluster, service: DayService) -> None:
    """Removes the service of an earlier play, with its pods: this one begins with a first plan."""
    if not cluster.kube.serves("inferenceservices"):
        return
    cluster.kube.delete("inferenceservices", service.name, service.namespace)

    def gone() -> bool | Unmet:
        left = [pod["metadata"]["name"] for pod in cluster.service_pods(service.name, service.namespace)]
        return not left or Unmet(left)

    wait_until(gone, limits.REACTION, f"the pods of an earlier {service.name} to be gone")


def _is_ready(cluster: Cluster, service: DayService) -> bool | Unmet:
    seen = cluster.conditions("inferenceservices", service.name, service.namespace)
    ready = seen.get("Ready")
    return (ready is not None and ready.status == "True") or Unmet([str(one) for one in seen.values()])


def play(cluster: Cluster, wanted: Wanted, say: Say, console: Console | None = None) -> int:
    """Plays the trace, shows it live, and writes picture and figures.

    Returns the exit code: 0, 130 after Ctrl-C, 1 if the twin ended.
    """
    console = console or Console(width=None if Console().is_terminal else 160, highlight=False)
    service = prepare(cluster, wanted, say)
    statics = service.statics(wanted.peak)
    course, held = service.play(wanted), Held(service.problem)
    say(f"playing {wanted.trace_file.name} in {wanted.seconds:.0f} s")
    try:
        code = _watched(cluster, service, course, held, console)
    finally:
        _end_twin(cluster, console)
    _finish(course, held, statics, code == 0, console)
    return code


def _watched(cluster: Cluster, service: DayService, course: Play, held: Held, console: Console) -> int:
    """Plays until the trace ends, the twin does, or Ctrl-C."""
    wanted, where = course.wanted, (service.namespace, service.name)
    try:
        trace = [
            (time_ - wanted.trace.start, rate or 0.0)
            for time_, rate in zip(wanted.trace.times, wanted.trace.rates, strict=True)
        ]
        Twin(cluster).play({where: trace}, speed=wanted.speed, timeout=PATIENCE)
        looker = Looker(cluster, service.questions(), time.time())
        with _shown(course, console) as show:
            while course.played < wanted.seconds:
                moment, told = looker.look()
                course.moments.append(moment)
                course.held.append(held.of(moment.ready))
                course.told = merged(course.told, told)
                show()
                if not cluster.running(TWIN):
                    console.print(f"the load twin ended: see {cluster.folder.log(TWIN)}", style="red")
                    return 1
                time.sleep(max(0.0, min(EVERY - looker.seconds_since(moment), wanted.seconds - moment.at)))
    except KeyboardInterrupt:
        now = wanted.clock(course.played)
        console.print(f"interrupted at {now} of the trace, exit code {INTERRUPTED}; stopping the twin")
        return INTERRUPTED
    return 0


def _end_twin(cluster: Cluster, console: Console) -> None:
    """Ends it, by SIGKILL if it does not hear."""
    try:
        Twin(cluster).stop()
    except AssertionError as error:
        console.print(str(error))


@contextmanager
def _shown(course: Play, console: Console) -> Iterator[Callable[[], None]]:
    """Shows the newest moment: live on a terminal, else in plain lines."""
    if console.is_terminal:
        with Live(console=console, refresh_per_second=REFRESHES) as live:
            yield lambda: live.update(view(course))
        return
    plain = PlainLines()

    def say() -> None:
        for line in plain.newer(course):
            console.print(line, soft_wrap=True)

    yield say


def _finish(course: Play, held: Held, statics: list[Static], complete: bool, console: Console) -> None:
    """Draws and sums up what was seen. Raises OSError."""
    held.finish(limits.REACTION)
    if not course.moments:
        console.print("nothing was seen: there is nothing to draw")
        return
    course.held = [held.of(moment.ready) for moment in course.moments]
    summary, wanted = Summary(course, complete, statics), course.wanted
    draw(summary, wanted.out)
    write_whole(wanted.figures, json.dumps(document(summary), indent=1) + "\n")
    console.print()
    console.print(table(summary))
    console.print(f"picture: {wanted.out}   figures: {wanted.figures}", soft_wrap=True)
