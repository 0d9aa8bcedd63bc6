"""Whether operator, extender and second scheduler run and are led: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hetserve.api import names
from hetserve.cli.health.facts import (
    EXTENDER,
    OPERATOR,
    SCHEDULER,
    ComponentFact,
    DeploymentFact,
    Facts,
    LeaseFact,
    Unread,
    WaitFact,
)
from hetserve.cli.health.finding import Finding, Level, unread

_LATE: Final = 2.0
"""Seconds of silence beyond a Lease's duration: the API server tells its time in whole seconds."""
_SHOWN: Final = 3
_WHY: Final = {
    OPERATOR: "without a leader services stay as they are",
    EXTENDER: "without a leader no pod is placed",
    SCHEDULER: f"without a leader nobody schedules the pods of {names.SCHEDULER_NAME}",
}
_NO_IMAGE: Final = ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName")
_NO_CONFIG: Final = ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")


def components(facts: Facts) -> Iterator[Finding]:
    """Findings about each component, under its name."""
    for one in facts.components:
        # That the scheduler has no configuration is said once, by the check of what stands in it.
        if one.component != SCHEDULER or one.settings is not False:
            yield _component(one, facts.namespace)


def _component(fact: ComponentFact, namespace: str) -> Finding:
    for one in (fact.settings, fact.deployment, fact.lease):
        if isinstance(one, Unread):
            return unread(fact.name, one)
    why = _WHY[fact.component]
    if fact.settings is False:
        what = f"namespace {namespace} holds no ConfigMap {fact.name}: not installed"
        do = "helm install hetserve, or name its namespace by --system-namespace"
        return Finding(fact.name, Level.PROBLEM, what, why, do)
    wrong = _not_running(fact)
    if wrong is not None:
        return Finding(fact.name, Level.PROBLEM, wrong, why, _do(fact, namespace))
    return _running(fact, namespace)


def _not_running(fact: ComponentFact) -> str | None:
    deployment, lease = fact.deployment, fact.lease
    if isinstance(deployment, Unread) or isinstance(lease, Unread):
        return None
    if deployment is not None and deployment.wanted == 0:
        return f"Deployment {fact.workload} is scaled to 0"
    if deployment is not None and deployment.ready == 0:
        return f"none of the {deployment.wanted} replicas is ready{_waiting(deployment)}"
    return _not_led(lease) if fact.elects else None


def _not_led(lease: LeaseFact | None) -> str | None:
    if lease is None:
        return "nobody has ever led: there is no Lease"
    if not lease.holder:
        return "nobody leads: the last leader has given its Lease up"
    if lease.silent > lease.duration + _LATE:
        return f"nobody leads: {lease.holder} has not renewed its Lease for {lease.silent:.0f} s"
    return None


def _running(fact: ComponentFact, namespace: str) -> Finding:
    deployment, lease = fact.deployment, fact.lease
    if isinstance(deployment, DeploymentFact) and deployment.ready < deployment.wanted:
        what = f"{deployment.ready} of {deployment.wanted} replicas are ready{_waiting(deployment)}"
        return Finding(fact.name, Level.NOTE, what, "fewer stand by where the leader fails", _do(fact, namespace))
    if isinstance(deployment, DeploymentFact) and deployment.behind:
        what = f"{deployment.behind} of {deployment.wanted} replicas are not of its last update{_waiting(deployment)}"
        return Finding(fact.name, Level.NOTE, what, "what runs is of before", _do(fact, namespace))
    if deployment is None and not fact.elects:
        what = "no Deployment and no election: whether it runs cannot be told from the API"
        return Finding(fact.name, Level.NOTE, what, _WHY[fact.component], "look at its process's /readyz")
    led = f"{lease.holder} leads" if isinstance(lease, LeaseFact) and fact.elects else "runs without an election"
    return Finding(fact.name, Level.OK, led + ("" if deployment else "; it runs outside this Deployment"))


def _waiting(deployment: DeploymentFact) -> str:
    """What its pods wait for, to be put behind how many are ready."""
    if isinstance(deployment.waits, Unread):
        return f"; what they wait for is not known: {deployment.waits.why}"
    told = "; ".join(map(_told, deployment.waits[:_SHOWN]))
    return f": {told}" if told else ""


def _told(wait: WaitFact) -> str:
    where = f"container {wait.container} of pod {wait.pod}" if wait.container else f"pod {wait.pod}"
    image = f" (image {wait.image})" if wait.image else ""
    return f"{where}: {wait.reason}{image}" + (f": {wait.message}" if wait.message else "")


def _do(fact: ComponentFact, namespace: str) -> str:
    """What to do about the first reason; without one, where to look."""
    deployment = fact.deployment
    if not isinstance(deployment, DeploymentFact) or isinstance(deployment.waits, Unread) or not deployment.waits:
        return f"kubectl -n {namespace} describe deployment {fact.workload}"
    first = deployment.waits[0]
    describe = f"kubectl -n {namespace} describe pod {first.pod}"
    if first.reason in _NO_IMAGE:
        values = f"{fact.component}.image, imagePullSecrets"
        return f"put the image where its node may pull it, or name another by the chart ({values}); {describe}"
    if first.reason in _NO_CONFIG:
        return f"bring what the message names; {describe}"
    if first.ended:
        return f"kubectl -n {namespace} logs {first.pod} -c {first.container} --previous"
    return describe
