"""Plays a trace against the service of manifests/load, watches, and draws what was seen."""

from __future__ import annotations

import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Final

import httpx
from rich.console import Console
from rich.live import Live

from harness import limits
from harness.beside import TWIN
from harness.cluster import Cluster
from harness.components import ROOT
from harness.files import write_whole
from harness.kube import ApiError, Manifest, is_true, read_manifests
from harness.load.course import Decision, Instances, Moment, Play
from harness.load.drawing import draw
from harness.load.options import Wanted
from harness.load.shown import decided, document, end, figures, view
from harness.nodes import DAY
from harness.prometheus import Prometheus, QueryError
from harness.twin import Twin
from harness.waiting import wait_until
from hetserve.api import manifests as api
from hetserve.api.names import LABEL_INSTANCE_TYPE
from hetserve.base.units import QPS, Seconds
from hetserve.demand.contract import DURATION, REQUESTS, bound_label
from hetserve.planning import Problem, build_problem
from hetserve.planning.plan import Plan
from hetserve.planning.reach import PlannerJob, capacity_of, done

MANIFEST: Final = ROOT / "manifests" / "load" / "rm2-day.yaml"
NAMESPACE: Final = "default"
EVERY: Final = 1.0
"""Seconds between looks."""
PLAIN_EVERY: Final = 10
"""Looks between lines of figures where stdout is no terminal."""
LEAST_QPS: Final = 1.0
PATIENCE: Final = "2s"
"""A client gives up a query that has waited so long: it is late long before."""
INTERRUPTED: Final = 130
_NO_ANSWER: Final = (httpx.TransportError, ApiError, QueryError, ValueError, KeyError)


def play(cluster: Cluster, wanted: Wanted, say: Callable[[str], None]) -> int:
    """Plays the trace, shows it live, and writes picture and figures.

    Returns the exit code: 0, 130 after Ctrl-C, 1 if the twin ended.
    """
    console = Console(width=None if sys.stdout.isatty() else 160, highlight=False)
    read = api.read_manifests((str(MANIFEST),))
    problem = build_problem(read.services[0], read.types, read.profiles)
    assert isinstance(problem, Problem)
    _prepare(cluster, problem.service, wanted)
    with ThreadPoolExecutor(1) as pool:  # that works out what instances hold, beside the view
        asked = cache(lambda ready: pool.submit(capacity_of, problem, ready))
        course = Play(wanted, problem, static_plans(problem, wanted.peak), asked)
        say(f"{problem.service} is Ready: playing {wanted.trace_file.name} in {wanted.seconds:.0f} s")
        try:
            code = _watch(cluster, course, console)
        except KeyboardInterrupt:
            code = INTERRUPTED
            now = wanted.clock(course.played)
            console.print(f"interrupted at {now} of the trace, exit code {code}; stopping the twin")
        finally:
            with suppress(AssertionError):  # it did not hear, and was killed
                cluster.stop_component(TWIN)
    if course.moments:
        figures_file = wanted.out.with_suffix(".json")
        draw(course, wanted.out)
        write_whole(figures_file, document(course))
        console.print("", end(course), f"picture: {wanted.out}   figures: {figures_file}", sep="\n", soft_wrap=True)
    return code


def _prepare(cluster: Cluster, name: str, wanted: Wanted) -> None:
    """Applies the service anew, on nodes of its own, and waits until it is Ready. Raises WaitTimeoutError."""
    documents = read_manifests(MANIFEST)
    types = [one for one in documents if one["kind"] == "InstanceType"]
    (service,) = (one for one in documents if one["kind"] == "InferenceService")
    service["spec"]["load"]["expectedQPS"] = max(wanted.trace.rates[0] or 0.0, LEAST_QPS)
    cluster.stop_component(TWIN)
    cluster.kube.delete("inferenceservices", name, NAMESPACE)
    what = f"the pods of an earlier {name} to be gone"  # this play begins with a first plan
    wait_until(lambda: not cluster.service_pods(name, NAMESPACE), limits.REACTION, what)
    cluster.add_nodes(DAY)
    cluster.apply(types)
    cluster.play_launch_times(*(one["metadata"]["name"] for one in types), jitter=0.25, drain=True)
    cluster.apply(one for one in documents if one not in types)
    cluster.wait_ready(name, NAMESPACE)


def static_plans(problem: Problem, peak: float) -> dict[float, Plan]:
    """The cheapest instances for the peak [queries/s] all day, by the share of what they hold that it uses.

    They are used in full, and with the saturation of the service; one that does not exist is left out.
    """
    used = (1.0, problem.saturation_threshold)
    asked = {share: replace(problem, load=QPS(peak / share), saturation_threshold=1.0) for share in used}
    plans = {share: done(PlannerJob(one)) for share, one in asked.items()}
    return {share: plan for share, plan in plans.items() if isinstance(plan, Plan) and plan.feasible}


def _watch(cluster: Cluster, course: Play, console: Console) -> int:
    """Plays until the trace ends, or the twin does. Returns the exit code."""
    wanted = course.wanted
    trace = zip(wanted.trace.times, (rate or 0.0 for rate in wanted.trace.rates), strict=True)
    Twin(cluster).play({(NAMESPACE, course.problem.service): trace}, speed=wanted.speed, timeout=PATIENCE)
    began = int(time.time())  # a decision's time is in whole seconds
    with Live(console=console) if console.is_terminal else nullcontext() as live:
        while course.played < wanted.seconds:
            moment, decisions = look(cluster, course.problem, began)
            course.held(moment)  # is worked out meanwhile
            course.moments.append(moment)
            for one in decisions:
                if one not in course.decisions:
                    course.decisions.append(one)
                    console.print(decided(course, one), soft_wrap=True)
            if live is not None:
                live.update(view(course))
            elif len(course.moments) % PLAIN_EVERY == 1:
                console.print(", ".join(f"{name} {figure}" for name, figure, _ in figures(course)), soft_wrap=True)
            if not cluster.running(TWIN):
                console.print(f"the load twin ended: see {cluster.folder.log(TWIN)}", style="red")
                return 1
            time.sleep(max(0.0, began + min(moment.at + EVERY, wanted.seconds) - time.time()))
    return 0


def look(cluster: Cluster, problem: Problem, began: float) -> tuple[Moment, list[Decision]]:
    """What is seen now, and the decisions that the status tells; what does not answer is not known.

    began: of the play, Unix seconds.
    """
    at, name, figures, instances, status = time.time() - began, problem.service, {}, None, {}
    with suppress(*_NO_ANSWER):
        samples = Prometheus(cluster).query(_promql(name, problem.slo.latency, at))
        figures = {one.labels["what"]: one.value for one in samples}
    with suppress(*_NO_ANSWER):
        instances = instances_of(cluster.service_pods(name, NAMESPACE))
    with suppress(*_NO_ANSWER):
        status = cluster.get("inferenceservices", name, NAMESPACE).get("status", {})
    planned = float((status.get("plan") or {}).get("load") or math.nan)
    return Moment(at, planned=planned, instances=instances, **figures), decisions_of(status, began)


def _promql(service: str, slo: Seconds, elapsed: float) -> str:
    """One question with an answer for each figure of a moment, told apart by a label.

    elapsed: seconds since the play's begin. Counters of pods that are gone count with the last that was seen of them:
    the twin began at zero.
    """
    mine = f'namespace="{NAMESPACE}",service="{service}"'

    def last(name: str, labels: str) -> str:
        return f"sum(last_over_time({name}{{{mine},{labels}}}[{max(round(elapsed * 1e3), 1)}ms]))"

    asked = {
        "rate": f"max(hetserve_twin_target_qps{{{mine}}})",
        "load": f'sum(rate({REQUESTS}{{{mine},outcome="received"}}[4s]))',
        "cost": f"1e6 * max(hetserve_service_running_cost_dollars_per_hour{{{mine}}})",
        "lag": "max(hetserve_twin_lag_seconds)",
        "received": last(REQUESTS, 'outcome="received"'),
        "ended": last(REQUESTS, 'outcome=~"served|dropped"'),
        "in_time": last(f"{DURATION}_bucket", f'le="{bound_label(slo)}"'),
    }
    return " or ".join(f'label_replace({query}, "what", "{name}", "", "")' for name, query in asked.items())


def instances_of(pods: Iterable[Manifest]) -> dict[str, Instances]:
    """Pods by instance type: Ready, launching, and leaving where they are being deleted."""
    counted = Counter((pod["metadata"]["labels"][LABEL_INSTANCE_TYPE], _stage(pod)) for pod in pods)
    return {kind: Instances(*(counted[kind, stage] for stage in Instances._fields)) for kind, _ in sorted(counted)}


def _stage(pod: Manifest) -> str:
    if "deletionTimestamp" in pod["metadata"]:
        return "leaving"
    return "ready" if is_true(pod, "Ready") else "launching"


def decisions_of(status: Manifest, began: float) -> list[Decision]:
    """Decisions of a status since the play began [Unix seconds], the oldest first."""
    entries = reversed(status.get("lastDecisions", []))
    told = ({**one, "at": datetime.fromisoformat(one["time"]).timestamp() - began} for one in entries)
    return [one for one in told if one["at"] >= 0]
