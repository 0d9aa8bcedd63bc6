"""Rights that the components need, and that the commands need of their caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from hetserve.api.kinds import KINDS
from hetserve.api.names import GROUP
from hetserve.cli.cluster.client import ClusterClient

_REVIEWS: Final = "/apis/authorization.k8s.io/v1"


class Right(NamedTuple):
    """`resource`: with its subresource behind a slash."""

    verb: str
    group: str
    resource: str

    @property
    def text(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


OF_COMPONENTS: Final = {
    "operator": (
        *(Right("watch", GROUP, kind.plural) for kind in KINDS),
        Right("patch", GROUP, "inferenceservices/status"),
        Right("patch", GROUP, "modelprofiles/status"),
        Right("watch", "", "nodes"),
        Right("watch", "", "pods"),
        Right("watch", "resource.k8s.io", "resourceslices"),
        Right("create", "apps", "deployments"),
        Right("patch", "apps", "deployments"),
        Right("delete", "apps", "deployments"),
        Right("list", "apps", "replicasets"),
    ),
    "extender": (
        Right("watch", "", "nodes"),
        Right("watch", "", "pods"),
        Right("watch", "resource.k8s.io", "resourceslices"),
        Right("patch", "", "pods"),
        Right("create", "", "pods/binding"),
    ),
    "scheduler": (Right("watch", "", "nodes"), Right("watch", "", "pods")),
}
"""By component: without one of these it does nothing useful."""
OF_PROBES: Final = (
    Right("create", "authentication.k8s.io", "tokenreviews"),
    Right("create", "authorization.k8s.io", "subjectaccessreviews"),
)
"""Of operator and extender: without these nobody reads their metrics, ledger and log."""
OF_THE_CALLER: Final = (
    Right("list", "", "nodes"),
    Right("list", "", "pods"),
    Right("watch", GROUP, "inferenceservices"),
)
"""For gpus, queue, why and wait."""


def missing_of_caller(cluster: ClusterClient) -> Iterator[str]:
    """Rights that the caller lacks in all namespaces. Raises ClusterError."""
    for right in OF_THE_CALLER:
        if not _allowed(cluster, "selfsubjectaccessreviews", {"resourceAttributes": _attributes(right)}):
            yield right.text


def missing_of_components(cluster: ClusterClient, namespace: str, prefix: str, *, asking: bool) -> Iterator[str]:
    """Account and right, for each that is missing. Raises ClusterError.

    prefix: what names of the accounts begin with. asking: whether probe ports ask the API server who may read them.
    """
    for component, always in OF_COMPONENTS.items():
        # Scheduler and extender are one pod, and so one account.
        account = f"{prefix}-{'scheduler' if component == 'extender' else component}"
        rights = always + (OF_PROBES if asking and component != "scheduler" else ())
        user = f"system:serviceaccount:{namespace}:{account}"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        for right in rights:
            asked = {"user": user, "groups": groups, "resourceAttributes": _attributes(right)}
            if not _allowed(cluster, "subjectaccessreviews", asked):
                yield f"account {namespace}/{account} may not {right.text}"


def _attributes(right: Right) -> dict[str, str]:
    resource, _, subresource = right.resource.partition("/")
    asked = {"verb": right.verb, "group": right.group, "resource": resource}
    return asked | ({"subresource": subresource} if subresource else {})


def _allowed(cluster: ClusterClient, kind: str, spec: dict[str, Any]) -> bool:
    name = "SelfSubjectAccessReview" if kind.startswith("self") else "SubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": name, "spec": spec}
    return bool((cluster.create(f"{_REVIEWS}/{kind}", body).get("status") or {}).get("allowed"))
