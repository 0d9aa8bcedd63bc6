"""The bearer token that a probe port asks for: the user's own, or a short-lived one of the chart's reader account."""

from __future__ import annotations

from typing import Final

from hetserve.cli.cluster.client import ClusterClient, ClusterError, namespaced
from hetserve.cli.cluster.installation import name_of, settings_map

SECONDS: Final = 600
"""The least that Kubernetes grants a token."""


def reader_token(cluster: ClusterClient, namespace: str) -> str:
    """A token for the probe ports of the installation in a namespace. Raises ClusterError.

    A kubeconfig with a certificate has none: then a TokenRequest for account `NAME-reader`, which needs the right to
    `create` `serviceaccounts/token` of it.
    """
    own = cluster.token()
    if own:
        return own
    account = name_of(settings_map(cluster, namespace, "extender"), "extender").removesuffix("extender") + "reader"
    path = namespaced("v1", namespace, "serviceaccounts", account, "token")
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": SECONDS},
    }
    try:
        status = cluster.create(path, body).get("status") or {}
    except ClusterError as error:
        raise ClusterError(
            "the probe port asks for a bearer token; your kubeconfig has none (a certificate is no token), "
            f"and none of account {namespace}/{account} can be made: {error.message}; "
            f"use a kubeconfig with a token, or ask for the right to create serviceaccounts/token of {account}",
            error.status,
        ) from None
    return str(status.get("token") or "")
