"""What is wrong with an installation: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hetserve.api import names
from hetserve.cli.health.facts import ComponentFact, CrdFact, Facts, LeaseFact, SchedulerFact, Unread

LEAST_VERSION: Final = (1, 35)
_LATE: Final = 2.0
"""Seconds of silence beyond a Lease's duration: the API server tells its time in whole seconds."""
_SHOWN: Final = 3
_CRDS_DO: Final = (
    "apply the CRDs of this version (helm upgrade, or kubectl apply -f crds/), or use the hetserve of theirs"
)


class Level(StrEnum):
    OK = "Ok"
    NOTE = "Note"
    UNKNOWN = "Unknown"
    PROBLEM = "Problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """`what` is so, `why` it matters and what to `do`; both are empty where all is well."""

    check: str
    level: Level
    what: str
    why: str = ""
    do: str = ""


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Every check's findings, in one order; a check that finds nothing wrong says so."""
    found: list[Finding] = [_version(facts), *_crds(facts)]
    for component in facts.components:
        found += _component(component, facts.namespace)
    found += _scheduler(facts)
    found += [_certificates(facts.scheduler), *_nodes(facts), *_rights(facts), *_probes(facts), _policy(facts)]
    return tuple(found)


def sound(found: tuple[Finding, ...]) -> bool:
    """Whether nothing is wrong: what could not be checked is not well."""
    return all(one.level in (Level.OK, Level.NOTE) for one in found)


def _unread(check: str, unread: Unread) -> Finding:
    return Finding(
        check,
        Level.UNKNOWN,
        f"not checked: {unread.why}",
        "what is not read is not known to be well",
        "ask again as somebody with this right",
    )


def _version(facts: Facts) -> Finding:
    major, minor, words = facts.version
    if (major, minor) >= LEAST_VERSION:
        return Finding("version", Level.OK, f"the API server is {words}")
    least = ".".join(map(str, LEAST_VERSION))
    return Finding(
        "version",
        Level.PROBLEM,
        f"the API server is {words}, below {least}",
        "gates, bindings and CEL rules are tested from there on",
        f"upgrade the cluster to {least} or later",
    )


def _crds(facts: Facts) -> Iterator[Finding]:
    if isinstance(facts.crds, Unread):
        yield _unread("crds", facts.crds)
        return
    bad = False
    for plural, crd in facts.crds.items():
        what = _crd(plural, crd)
        if what is not None:
            bad = True
            yield Finding("crds", Level.PROBLEM, what, "fields are dropped or refused unseen", _CRDS_DO)
    if not bad:
        yield Finding("crds", Level.OK, f"{len(facts.crds)} CRDs, with the schema of this version")


def _crd(plural: str, crd: CrdFact | None) -> str | None:
    name = f"{plural}.{names.GROUP}"
    if crd is None:
        return f"CRD {name} is not installed"
    if not crd.established:
        return f"CRD {name} is not established: the API server does not serve it"
    if crd.differs:
        return f"CRD {name} is of another version: it differs at {_some(crd.differs)}"
    return None


def _component(fact: ComponentFact, namespace: str) -> Iterator[Finding]:
    why = (
        "without a leader services stay as they are" if "operator" in fact.name else "without a leader no pod is placed"
    )
    see = f"kubectl -n {namespace} describe deployment {fact.name}"
    for unread in (fact.settings, fact.deployment, fact.lease):
        if isinstance(unread, Unread):
            yield _unread(fact.name, unread)
            return
    if fact.settings is False:
        do = "helm install hetserve, or name its namespace by --system-namespace"
        yield Finding(
            fact.name, Level.PROBLEM, f"namespace {namespace} holds no ConfigMap {fact.name}: not installed", why, do
        )
        return
    what = _not_running(fact)
    if what is not None:
        yield Finding(fact.name, Level.PROBLEM, what, why, see)
        return
    deployment, lease = fact.deployment, fact.lease
    if isinstance(deployment, Unread) or isinstance(lease, Unread):
        return
    if deployment is not None and deployment.ready < deployment.wanted:
        what = f"{deployment.ready} of {deployment.wanted} replicas are ready"
        yield Finding(fact.name, Level.NOTE, what, "fewer stand by where the leader fails", see)
    elif deployment is None and not fact.elects:
        what = "no Deployment and no election: whether it runs cannot be told from the API"
        yield Finding(fact.name, Level.NOTE, what, why, "look at its process's /readyz")
    else:
        led = "runs without an election" if lease is None else f"{lease.holder} leads"
        yield Finding(fact.name, Level.OK, led + ("" if deployment else "; it runs outside this Deployment"))


def _not_running(fact: ComponentFact) -> str | None:
    deployment, lease = fact.deployment, fact.lease
    if isinstance(deployment, Unread) or isinstance(lease, Unread):
        return None
    if deployment is not None and deployment.wanted == 0:
        return f"Deployment {fact.name} is scaled to 0"
    if deployment is not None and deployment.ready == 0:
        return f"none of the {deployment.wanted} replicas is ready"
    return _not_led(lease) if fact.elects else None


def _not_led(lease: LeaseFact | None) -> str | None:
    if lease is None:
        return "nobody has ever led: there is no Lease"
    if not lease.holder:
        return "nobody leads: the last leader has given its Lease up"
    if lease.silent > lease.duration + _LATE:
        return f"nobody leads: {lease.holder} has not renewed its Lease for {lease.silent:.0f} s"
    return None


def _scheduler(facts: Facts) -> Iterator[Finding]:
    fact = facts.scheduler
    if isinstance(fact, Unread):
        yield _unread("scheduler", fact)
    else:
        yield _configured(fact, facts.namespace)
    if isinstance(facts.failed, Unread):
        yield _unread("scheduling", facts.failed)
    elif facts.failed.count:
        pods, first = facts.failed.count, facts.failed
        what = f"{pods} pod{'s' if pods > 1 else ''} could not be judged; {first.first}: {first.message}"
        do = "read the message: where the extender refuses connections, see its findings above"
        yield Finding("scheduling", Level.PROBLEM, what, "the scheduler meets errors, so these pods wait", do)


def _configured(fact: SchedulerFact | None, namespace: str) -> Finding:
    check, why = "scheduler", "pods of hetserve-scheduler wait for an extender that is never asked"
    wrong = _misconfigured(fact)
    if fact is None or wrong is not None:
        do = f"helm upgrade writes ConfigMap hetserve-scheduler of namespace {namespace}; then restart the scheduler"
        return Finding(check, Level.PROBLEM, wrong or "", why, do)
    if isinstance(fact.endpoints, Unread):
        return _unread(check, fact.endpoints)
    if fact.endpoints == 0:
        what = f"nobody answers at {fact.url}: its Service has no ready address"
        see = f"kubectl -n {namespace} get pods -l app.kubernetes.io/component=extender --show-labels"
        return Finding(check, Level.PROBLEM, what, why, f"{see}: the leader has the label {names.LABEL_LEADER}")
    ready = "" if fact.endpoints is None else f", {fact.endpoints} ready address{'es' if fact.endpoints > 1 else ''}"
    return Finding(check, Level.OK, f"it asks the extender at {fact.url}{ready}")


def _misconfigured(fact: SchedulerFact | None) -> str | None:
    if fact is None:
        return "the scheduler's configuration is not there or not readable"
    if names.SCHEDULER_NAME not in fact.names:
        return f"it has no profile {names.SCHEDULER_NAME}"
    if fact.url is None:
        return f"no extender of it manages {names.RESOURCE_GPU_MEMORY}"
    if fact.ignorable:
        return f"its extender {fact.url} is ignorable: without it pods are bound without a GPU"
    return None


def _certificates(fact: SchedulerFact | Unread | None) -> Finding:
    if not isinstance(fact, SchedulerFact) or fact.url is None:
        return Finding("certificates", Level.NOTE, "not looked at: the scheduler's extender is not known")
    if fact.url.startswith("https://"):
        return Finding("certificates", Level.NOTE, "the verbs are served over TLS; certificates are not looked at")
    return Finding(
        "certificates",
        Level.NOTE,
        "none: the verbs are served over plain HTTP",
        "whoever reaches the verbs' port can place pods",
        "keep the NetworkPolicy of the chart, on a network that enforces it",
    )


def _nodes(facts: Facts) -> Iterator[Finding]:
    fact = facts.nodes
    if isinstance(fact, Unread):
        yield _unread("gpus", fact)
        return
    for text in fact.unreadable:
        yield Finding("gpus", Level.PROBLEM, text, "the node's GPUs are given to nobody", "correct the text named")
    if fact.unlabelled:
        what = f"GPUs of a device plugin, but no inventory: {_some(fact.unlabelled)}"
        do = f"install NVIDIA's GPU Feature Discovery, or annotate the nodes with {names.ANNOTATION_NODE_GPUS}"
        yield Finding("gpus", Level.PROBLEM, what, "hetserve places nothing on these nodes", do)
    if not fact.gpus:
        do = f"add GPU nodes with the labels of GPU Feature Discovery or the annotation {names.ANNOTATION_NODE_GPUS}"
        what = f"no GPU is known on any of {fact.nodes} nodes"
        yield Finding("gpus", Level.PROBLEM, what, "pods that ask for a GPU wait for ever", do)
    elif not fact.unreadable and not fact.unlabelled:
        yield Finding("gpus", Level.OK, f"{fact.gpus} GPUs on {fact.nodes} nodes")


def _rights(facts: Facts) -> Iterator[Finding]:
    if facts.own:
        what = f"you may not {_some(facts.own)}"
        yield Finding(
            "rights", Level.NOTE, what, "some commands will be refused", "ask for these rights, or use another context"
        )
    if isinstance(facts.missing_rights, Unread):
        yield _unread("rights", facts.missing_rights)
        return
    for text in facts.missing_rights:
        do = "helm upgrade writes the chart's roles; look for who changed them"
        yield Finding("rights", Level.PROBLEM, text, "the component cannot do its work", do)
    if not facts.missing_rights:
        yield Finding("rights", Level.OK, "the components have the rights that they need")


def _probes(facts: Facts) -> Iterator[Finding]:
    shown = [one.name for one in facts.components if one.settings is True and one.open]
    if shown:
        yield Finding(
            "probes",
            Level.NOTE,
            f"metrics, ledger and log are for everybody: {', '.join(shown)}",
            "whoever reaches the probe ports learns the names of everybody's pods and GPUs",
            "install the chart with probes.authorization=kubernetes",
        )


def _policy(facts: Facts) -> Finding:
    if isinstance(facts.policies, Unread):
        return _unread("policy", facts.policies)
    missing = tuple(name for name in names.ADMISSION_POLICIES if name not in facts.policies)
    if not missing:
        return Finding("policy", Level.OK, f"{len(facts.policies)} admission policies are bound")
    switched_off = not facts.policies
    return Finding(
        "policy",
        Level.NOTE if switched_off else Level.PROBLEM,
        "no ValidatingAdmissionPolicy of hetserve is installed" if switched_off else f"not bound: {', '.join(missing)}",
        f"whoever may write a pod can edit its {names.ANNOTATION_GPU}, and with it the next extender's ledger",
        "install the chart with admission.enabled=true, or let only those who are trusted write pods",
    )


def _some(texts: tuple[str, ...]) -> str:
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
