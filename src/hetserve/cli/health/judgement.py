"""An installation: the facts that are read of it, and what is wrong with it by them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from hetserve import __version__
from hetserve.api import names
from hetserve.base.units import Seconds

OPERATOR: Final = "operator"
EXTENDER: Final = "extender"
SCHEDULER: Final = "scheduler"
"""The components, as the chart labels them; the last is the second scheduler."""
_Fact = TypeVar("_Fact")
LEAST_VERSION: Final = (1, 35)
_CRDS_DO: Final = (
    "apply the CRDs of this version (helm upgrade, or kubectl apply -f crds/), or use the hetserve of theirs"
)
_OTHER_RULES: Final = "it may decide by other rules than the commands plan, why and explain tell of"
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


def workload_of(name: str, component: str) -> str:
    """Name of the Deployment of a component whose objects have that name: scheduler and extender are one pod."""
    return f"{name.removesuffix(EXTENDER)}{SCHEDULER}" if component == EXTENDER else name


@dataclass(frozen=True, slots=True)
class Unread:
    """In the place of a fact: why it could not be read."""

    why: str


@dataclass(frozen=True, slots=True)
class CrdFact:
    """`differs`: paths at which its version differs from the one that this program was built with, a few of them."""

    established: bool
    differs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaseFact:
    """`silent`: s since the last renewal, by the API server's clock; `duration`: s after which a leader is replaced."""

    holder: str
    silent: Seconds
    duration: Seconds


@dataclass(frozen=True, slots=True)
class WaitFact:
    """Why a pod is not ready. container: empty: the pod itself waits. image: of the container; message: a line.

    ended: whether the container has run, and so has left a log.
    """

    pod: str
    container: str
    image: str
    reason: str
    message: str
    ended: bool = False


@dataclass(frozen=True, slots=True)
class DeploymentFact:
    """Replicas: how many are wanted, are ready, and are not yet of its latest template; what its pods wait for."""

    wanted: int
    ready: int
    behind: int = 0
    waits: tuple[WaitFact, ...] | Unread = ()


@dataclass(frozen=True, slots=True)
class ComponentFact:
    """The operator, the extender or the second scheduler. None: there is no such object.

    name: of its objects. component: as the chart labels it. elects: whether its settings ask for a Lease, which is
    then read. version: of hetserve; empty: nothing says it. open: whether its settings show metrics, ledger and log to
    everybody.
    """

    name: str
    component: str
    settings: bool | Unread
    elects: bool
    lease: LeaseFact | Unread | None
    deployment: DeploymentFact | Unread | None
    version: str = ""
    open: bool = False

    @property
    def workload(self) -> str:
        """Name of its Deployment."""
        return workload_of(self.name, self.component)


@dataclass(frozen=True, slots=True)
class SchedulerFact:
    """The second scheduler's configuration.

    url: of the extender that books our GPUs; None: none is configured. ignorable: whether pods are bound without it.
    names: its profiles.
    """

    url: str | None
    ignorable: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailedPods:
    """Pods that the scheduler could not judge for an error: their number, the first and its message."""

    count: int
    first: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class NodesFact:
    """Nodes: their number, GPUs known, texts of those whose inventory is unreadable, names of those with GPUs of
    another device plugin and no inventory. refused: names of nodes whose GPUs somebody else gives, by the words why.
    missing: names of nodes of whose GPUs some are broken, by the words.
    """

    nodes: int
    gpus: int
    unreadable: tuple[str, ...] = ()
    unlabelled: tuple[str, ...] = ()
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class InstallationFacts:
    """An installation at one time.

    namespace: of the installation. version: (major, minor) and the API server's words. crds: by plural name; None:
    absent. own, missing_rights: of the caller, of the components. policies: our ValidatingAdmissionPolicies that are
    bound.
    """

    namespace: str
    version: tuple[int, int, str]
    crds: Mapping[str, CrdFact | None] | Unread
    components: tuple[ComponentFact, ...]
    scheduler: SchedulerFact | Unread | None
    failed: FailedPods | Unread
    nodes: NodesFact | Unread
    own: tuple[str, ...]
    missing_rights: tuple[str, ...] | Unread
    policies: tuple[str, ...] | Unread


class Level(StrEnum):
    OK = "Ok"
    NOTE = "Note"
    UNKNOWN = "Unknown"
    PROBLEM = "Problem"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """`what` is so, `why` it matters and what to `do`; both are empty where all is well."""

    check: str
    level: Level
    what: str
    why: str = ""
    do: str = ""


def some(texts: tuple[str, ...]) -> str:
    """The first texts, and how many more there are."""
    more = len(texts) - _SHOWN
    return ", ".join(texts[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def findings(facts: InstallationFacts) -> tuple[CheckFinding, ...]:
    """Every check's findings, in one order; a check that finds nothing wrong says so."""
    found: list[CheckFinding] = [_version(facts), *_checked("crds", facts.crds, _crds)]
    found += [*_versions(facts.components), *_components(facts)]
    found += _checked("scheduler", facts.scheduler, lambda fact: _configured(fact, facts))
    found += [*_checked("scheduling", facts.failed, _scheduling), *_checked("gpus", facts.nodes, _nodes)]
    found += [*_own_rights(facts.own), *_checked("rights", facts.missing_rights, _rights)]
    found += [*_probes(facts), *_checked("policy", facts.policies, _policy)]
    return tuple(found)


def _checked(
    check: str, fact: _Fact | Unread, judged: Callable[[_Fact], Iterator[CheckFinding]]
) -> Iterator[CheckFinding]:
    """What could not be read is not known to be well."""
    if not isinstance(fact, Unread):
        return judged(fact)
    why, do = "what is not read is not known to be well", "ask again as somebody with this right"
    return iter((CheckFinding(check, Level.UNKNOWN, f"not checked: {fact.why}", why, do),))


def sound(found: tuple[CheckFinding, ...]) -> bool:
    """Whether nothing is wrong: what could not be checked is not well."""
    return all(one.level in (Level.OK, Level.NOTE) for one in found)


def _version(facts: InstallationFacts) -> CheckFinding:
    major, minor, words = facts.version
    if (major, minor) >= LEAST_VERSION:
        return CheckFinding("version", Level.OK, f"the API server is {words}")
    least = ".".join(map(str, LEAST_VERSION))
    return CheckFinding(
        "version",
        Level.PROBLEM,
        f"the API server is {words}, below {least}",
        "gates, bindings and CEL rules are tested from there on",
        f"upgrade the cluster to {least} or later",
    )


def _crds(crds: Mapping[str, CrdFact | None]) -> Iterator[CheckFinding]:
    wrong = [what for plural, crd in crds.items() if (what := _crd(plural, crd)) is not None]
    for what in wrong:
        yield CheckFinding("crds", Level.PROBLEM, what, "fields are dropped or refused unseen", _CRDS_DO)
    if not wrong:
        yield CheckFinding("crds", Level.OK, f"{len(crds)} CRDs, with the schema of this version")


def _crd(plural: str, crd: CrdFact | None) -> str | None:
    name = f"{plural}.{names.GROUP}"
    if crd is None:
        return f"CRD {name} is not installed"
    if not crd.established:
        return f"CRD {name} is not established: the API server does not serve it"
    if crd.differs:
        return f"CRD {name} is of another version: it differs at {some(crd.differs)}"
    return None


def _scheduling(failed: FailedPods) -> Iterator[CheckFinding]:
    if failed.count:
        what = (
            f"{failed.count} pod{'s' if failed.count > 1 else ''} could not be judged; {failed.first}: {failed.message}"
        )
        do = "read the message: where the extender refuses connections, see its findings above"
        yield CheckFinding("scheduling", Level.PROBLEM, what, "the scheduler meets errors, so these pods wait", do)


def _configured(fact: SchedulerFact | None, facts: InstallationFacts) -> Iterator[CheckFinding]:
    check, why = "scheduler", "pods of hetserve-scheduler wait for an extender that is never asked"
    wrong = _misconfigured(fact)
    if fact is None or wrong is not None:
        name = next(one.name for one in facts.components if one.component == SCHEDULER)
        do = f"helm upgrade writes ConfigMap {name} of namespace {facts.namespace}; then restart the scheduler"
        yield CheckFinding(check, Level.PROBLEM, wrong or "", why, do)
    else:
        yield CheckFinding(check, Level.OK, f"it asks the extender at {fact.url}")


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


def _nodes(fact: NodesFact) -> Iterator[CheckFinding]:
    for text in fact.unreadable:
        yield CheckFinding("gpus", Level.PROBLEM, text, "the node's GPUs are given to nobody", "correct the text named")
    for words, nodes in fact.refused.items():
        said, _, remedy = words.partition("; ")
        what = f"GPUs of {some(nodes)} are not hetserve's: {said}"
        yield CheckFinding("gpus", Level.NOTE, what, "hetserve places nothing on these nodes", remedy)
    for words, nodes in fact.missing.items():
        said, _, remedy = words.partition("; ")
        yield CheckFinding(
            "gpus", Level.PROBLEM, f"{some(nodes)}: {said}", "a pod may be bound to a broken GPU", remedy
        )
    if fact.unlabelled:
        what = f"GPUs of a device plugin, but no inventory: {some(fact.unlabelled)}"
        do = f"install NVIDIA's GPU Feature Discovery, or annotate the nodes with {names.ANNOTATION_NODE_GPUS}"
        yield CheckFinding("gpus", Level.PROBLEM, what, "hetserve places nothing on these nodes", do)
    if not fact.gpus:
        do = f"add GPU nodes with the labels of GPU Feature Discovery or the annotation {names.ANNOTATION_NODE_GPUS}"
        what = f"no GPU is known on any of {fact.nodes} nodes"
        yield CheckFinding("gpus", Level.PROBLEM, what, "pods that ask for a GPU wait for ever", do)
    elif not fact.unreadable and not fact.unlabelled:
        yield CheckFinding("gpus", Level.OK, f"{fact.gpus} GPUs on {fact.nodes} nodes")


def _own_rights(missing: tuple[str, ...]) -> Iterator[CheckFinding]:
    if missing:
        do = "ask for these rights, or use another context"
        yield CheckFinding("rights", Level.NOTE, f"you may not {some(missing)}", "some commands will be refused", do)


def _rights(missing: tuple[str, ...]) -> Iterator[CheckFinding]:
    for text in missing:
        do = "helm upgrade writes the chart's roles; look for who changed them"
        yield CheckFinding("rights", Level.PROBLEM, text, "the component cannot do its work", do)
    if not missing:
        yield CheckFinding("rights", Level.OK, "the components have the rights that they need")


def _probes(facts: InstallationFacts) -> Iterator[CheckFinding]:
    shown = [one.name for one in facts.components if one.settings is True and one.open]
    if shown:
        yield CheckFinding(
            "probes",
            Level.NOTE,
            f"metrics, ledger and log are for everybody: {', '.join(shown)}",
            "whoever reaches the probe ports learns the names of everybody's pods and GPUs",
            "install the chart with probes.authorization=kubernetes",
        )


def _policy(bound: tuple[str, ...]) -> Iterator[CheckFinding]:
    missing = ", ".join(name for name in names.ADMISSION_POLICIES if name not in bound)
    level, what = Level.PROBLEM, f"not bound: {missing}"
    if not bound:
        level, what = Level.NOTE, "no ValidatingAdmissionPolicy of hetserve is installed"
    why = f"whoever may write a pod can edit its {names.ANNOTATION_GPU}, and with it the next extender's ledger"
    do = "install the chart with admission.enabled=true, or let only those who are trusted write pods"
    well = CheckFinding("policy", Level.OK, f"{len(bound)} admission policies are bound")
    yield CheckFinding("policy", level, what, why, do) if missing else well


def _versions(components: tuple[ComponentFact, ...]) -> Iterator[CheckFinding]:
    """A finding for each version that is not ours. CRDs have a check of their own, by their schema."""
    installed = [one for one in components if one.settings is True]
    named: dict[str, list[str]] = defaultdict(list)
    for one in installed:
        named[one.version].append(one.name)
    for version in sorted(named.keys() - {__version__}):
        yield _other(version, ", ".join(named[version]))
    if named.keys() == {__version__}:
        yield CheckFinding("versions", Level.OK, f"components and command line are hetserve {__version__}")


def _other(version: str, components: str) -> CheckFinding:
    here = f"this command line is hetserve {__version__}"
    what = f"nothing says which version of hetserve {components} is, and {here}"
    do = "helm upgrade labels what it installs with its version"
    if version:
        what = f"hetserve {version} is installed ({components}), and {here}"
        do = f"helm upgrade to hetserve {__version__} (docs/upgrade.md), or use the command line of hetserve {version}"
    return CheckFinding("versions", Level.NOTE, what, _OTHER_RULES, do)


def _components(facts: InstallationFacts) -> Iterator[CheckFinding]:
    """Findings about each component, under its name."""
    for one in facts.components:
        # That the scheduler has no configuration is said once, by the check of what stands in it.
        if one.component != SCHEDULER or one.settings is not False:
            seen = next((part for part in (one.settings, one.deployment, one.lease) if isinstance(part, Unread)), one)
            yield from _checked(one.name, seen, lambda fact: iter((_component(fact, facts.namespace),)))


def _component(fact: ComponentFact, namespace: str) -> CheckFinding:
    why = _WHY[fact.component]
    if fact.settings is False:
        what = f"namespace {namespace} holds no ConfigMap {fact.name}: not installed"
        do = "helm install hetserve, or name its namespace by --system-namespace"
        return CheckFinding(fact.name, Level.PROBLEM, what, why, do)
    wrong = _not_running(fact)
    if wrong is not None:
        return CheckFinding(fact.name, Level.PROBLEM, wrong, why, _do(fact, namespace))
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


def _running(fact: ComponentFact, namespace: str) -> CheckFinding:
    deployment, lease = fact.deployment, fact.lease
    if isinstance(deployment, DeploymentFact) and deployment.ready < deployment.wanted:
        what = f"{deployment.ready} of {deployment.wanted} replicas are ready{_waiting(deployment)}"
        return CheckFinding(fact.name, Level.NOTE, what, "fewer stand by where the leader fails", _do(fact, namespace))
    if isinstance(deployment, DeploymentFact) and deployment.behind:
        what = f"{deployment.behind} of {deployment.wanted} replicas are not of its last update{_waiting(deployment)}"
        return CheckFinding(fact.name, Level.NOTE, what, "what runs is of before", _do(fact, namespace))
    if deployment is None and not fact.elects:
        what = "no Deployment and no election: whether it runs cannot be told from the API"
        return CheckFinding(fact.name, Level.NOTE, what, _WHY[fact.component], "look at its process's /readyz")
    led = f"{lease.holder} leads" if isinstance(lease, LeaseFact) and fact.elects else "runs without an election"
    return CheckFinding(fact.name, Level.OK, led + ("" if deployment else "; it runs outside this Deployment"))


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
