"""Rights that the components need, and that the commands need of their caller."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hetserve.api.kinds import INFERENCE_SERVICE, KINDS, MODEL_PROFILE
from hetserve.api.names import GROUP
from hetserve.cli.cluster.client import ClusterClient

_REVIEWS: Final = "/apis/authorization.k8s.io/v1"


_READ: Final = ("watch nodes", "watch pods", "watch resourceslices.resource.k8s.io")
_OF_DEPLOYMENTS: Final = ("create deployments.apps", "patch deployments.apps", "delete deployments.apps")
OF_COMPONENTS: Final = {
    "operator": (
        *(f"watch {kind.plural}.{GROUP}" for kind in KINDS),
        f"patch {INFERENCE_SERVICE.plural}/status.{GROUP}",
        f"patch {MODEL_PROFILE.plural}/status.{GROUP}",
        *_READ,
        *_OF_DEPLOYMENTS,
        "list replicasets.apps",
    ),
    "extender": (*_READ, "patch pods", "create pods/binding"),
    "scheduler": ("watch nodes", "watch pods"),
}
"""By component, verb and resource with its subresource and group: without one of these it does nothing useful."""
OF_PROBES: Final = ("create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io")
"""Of operator and extender: without these nobody reads their metrics, ledger and log."""
OF_THE_CALLER: Final = ("list nodes", "list pods", f"watch {INFERENCE_SERVICE.plural}.{GROUP}")
"""For gpus, queue, why and wait."""


def missing_of_caller(cluster: ClusterClient) -> Iterator[str]:
    """Rights that the caller lacks in all namespaces. Raises ClusterError."""
    for right in OF_THE_CALLER:
        if not _allowed(cluster, "selfsubjectaccessreviews", {"resourceAttributes": _attributes(right)}):
            yield right


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
                yield f"account {namespace}/{account} may not {right}"


def _attributes(right: str) -> dict[str, str]:
    verb, _, what = right.partition(" ")
    named, _, group = what.partition(".")
    resource, _, subresource = named.partition("/")
    asked = {"verb": verb, "group": group, "resource": resource}
    return asked | ({"subresource": subresource} if subresource else {})


def _allowed(cluster: ClusterClient, kind: str, spec: dict[str, Any]) -> bool:
    name = "SelfSubjectAccessReview" if kind.startswith("self") else "SubjectAccessReview"
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": name, "spec": spec}
    return bool((cluster.create(f"{_REVIEWS}/{kind}", body).get("status") or {}).get("allowed"))
