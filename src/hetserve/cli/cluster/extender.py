"""Finds an installation by the labels of its chart, and reads its settings and its placement log."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import yaml

from hetserve.api.names import SYSTEM_NAMESPACE
from hetserve.base.files import read_text
from hetserve.base.yaml_loader import contents
from hetserve.cli.cluster.client import ClusterClient, ClusterError, RawObject, namespaced
from hetserve.cli.cluster.probe_port import ProbeRefusalError, get_forwarded, get_shown, get_url
from hetserve.cli.output import streams

USUAL: Final = "hetserve"
"""What names of objects begin with unless the chart is told otherwise."""
_FORBIDDEN: Final = 403
Record = dict[str, Any]
_EXTENDER: Final = "extender"
_POD: Final = "scheduler"
"""The component as whose its pod is labelled: scheduler and extender are one pod."""
SCHEDULER_LEASE: Final = "hetserve-scheduler"
LEASES: Final = "coordination.k8s.io/v1"
PROBE_PORT: Final = 8889
TOKEN_SECONDS: Final = 600
"""The least that Kubernetes grants a token."""
MOST_BYTES: Final = 1 << 30
"""Largest dump or log, as of the setting placementLog."""


def labels_of(component: str) -> str:
    """Selects what the chart makes for a component, such as `extender`."""
    return f"app.kubernetes.io/name=hetserve,app.kubernetes.io/component={component}"


def settings_map(cluster: ClusterClient, namespace: str, component: str) -> RawObject | None:
    """ConfigMap with the settings of a component; None: the namespace holds none. Raises ClusterError."""
    found = cluster.list(namespaced("v1", namespace, "configmaps"), labels=labels_of(component)).items
    return min(found, key=lambda one: str(one["metadata"]["name"])) if found else None


def settings_in(found: RawObject | None, component: str) -> RawObject | None:
    """The mapping in the ConfigMap of a component; None: no ConfigMap, or no mapping in it. Raises yaml.YAMLError."""
    key = "scheduler.yaml" if component == "scheduler" else "settings.yaml"
    documents = contents(((found or {}).get("data") or {}).get(key) or "")
    return documents[0] if len(documents) == 1 and isinstance(documents[0], dict) else None


def system_namespace(cluster: ClusterClient | None, given: str | None) -> str:
    """Namespace of the installation: the one given, else the usual one if it is there, else where it is found.

    cluster: None: nothing is asked. The usual one too where the caller may not look. Raises ClusterError.
    """
    if given is not None or cluster is None:
        return given or SYSTEM_NAMESPACE
    try:
        if settings_map(cluster, SYSTEM_NAMESPACE, "extender") is None:
            found = cluster.list("/api/v1/configmaps", labels=labels_of("extender")).items
            return min((str(one["metadata"]["namespace"]) for one in found), default=SYSTEM_NAMESPACE)
    except ClusterError as error:
        if error.status != _FORBIDDEN:
            raise
    return SYSTEM_NAMESPACE


def name_of(settings: dict[str, Any] | None, component: str) -> str:
    """Name of a component's objects: that of the ConfigMap with its settings; None: the usual one."""
    return f"{USUAL}-{component}" if settings is None else str(settings["metadata"]["name"])


def extender_settings(cluster: ClusterClient | None, namespace: str, *, noted: bool = True) -> dict[str, Any]:
    """The extender's settings.yaml; empty, with a note, if it cannot be read.

    cluster: None: empty, without a note. namespace: of hetserve. noted: whether missing settings are worth a note.
    """
    if cluster is None:
        return {}
    try:
        found = settings_map(cluster, namespace, _EXTENDER)
        settings = settings_in(found, _EXTENDER)
    except (ClusterError, yaml.YAMLError) as error:
        _note(f"the extender's settings cannot be read ({error})")
        return {}
    if found is not None and settings is None:
        name = name_of(found, _EXTENDER)
        _note(f"the extender's settings cannot be read (settings.yaml of ConfigMap {name} is not one mapping)")
    elif settings is None and noted:
        _note(f"namespace {namespace} holds no settings of an extender (--system-namespace names another)")
    return settings or {}


def read_log(where: str, token: Callable[[], str]) -> list[Record]:
    """Records of a file ("-": standard input) or an http URL. Raises ClusterError.

    token: a bearer token, for a probe port of this machine that asks for one.
    """
    return parse_log(shown_text(where, token), where)


def live_log(cluster: ClusterClient, namespace: str) -> list[Record]:
    """The leader's log, by a forwarded port, with the user's token. Raises ClusterError."""
    pods = cluster.list(namespaced("v1", namespace, "pods"), labels=labels_of(_POD)).items
    if not pods:
        raise ClusterError(
            f"no pod of the extender in namespace {namespace}; --system-namespace names another, --log URL a process"
        )
    settings = extender_settings(cluster, namespace, noted=False)
    names = [str(pod["metadata"]["name"]) for pod in pods]
    leader = _leader(cluster, namespace, settings.get("scheduler") or {})
    name = leader if leader in names else names[0]
    body = shown_by_pod(cluster, (namespace, name), int(settings.get("probePort", PROBE_PORT)), "/log")
    return parse_log(body.decode("utf-8", "replace"), f"pod {name}")


def shown_by_pod(cluster: ClusterClient, pod: tuple[str, str], port: int, path: str) -> bytes:
    """What a probe port shows, forwarded, with the user's token. pod: namespace and name. Raises ClusterError."""
    get = partial(get_forwarded, cluster, pod, port, path, most=MOST_BYTES)
    try:
        return get_shown(lambda headers: get(headers=headers), partial(reader_token, cluster, pod[0]))
    except ProbeRefusalError as error:
        raise ClusterError(f"pod {pod[1]}: {error}", error.status) from None


def _leader(cluster: ClusterClient, namespace: str, scheduler: dict[str, Any]) -> str:
    """Name of the pod whose scheduler holds the Lease; empty: nobody, or it cannot be read."""
    where, name = str(scheduler.get("leaseNamespace") or namespace), str(scheduler.get("leaseName", SCHEDULER_LEASE))
    try:
        lease = cluster.find(namespaced(LEASES, where, "leases", name)) if name else None
    except ClusterError:
        return ""
    # kube-scheduler calls itself by its host's name, which is the pod's, and a UUID.
    return str(((lease or {}).get("spec") or {}).get("holderIdentity") or "").rpartition("_")[0]


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
        "spec": {"expirationSeconds": TOKEN_SECONDS},
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


def reader_token_of(cluster: ClusterClient | None, system: str | None, **kubeconfig: str | None) -> str:
    """The token for a probe port that asks for one. Raises ClusterError.

    cluster: None: that of the kubeconfig, else of the default one. system: namespace of hetserve; None: where it is
    found.
    """
    asked = cluster or ClusterClient.connect(**kubeconfig)
    return reader_token(asked, system_namespace(asked, system))


def parse_log(text: str, where: str) -> list[Record]:
    """Records of JSON lines, or of a dump with a log. Raises ClusterError."""
    try:
        try:
            whole = json.loads(text)
        except json.JSONDecodeError:
            whole = {"log": [json.loads(line) for line in text.splitlines() or [text]]}
        found = whole.get("log") if isinstance(whole, dict) and "call" not in whole else [whole]
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"{where}: not a placement log: {error}") from None
    if not isinstance(found, list) or not all(isinstance(one, dict) and "call" in one for one in found) or not found:
        raise ClusterError(f"{where}: holds no placement log; is placementLog set for the extender?")
    return found


def shown_text(where: str, token: Callable[[], str]) -> str:
    """The text at an http URL, or in a file. token: as of `read_log`. Raises ClusterError."""
    try:
        if where.startswith(("http://", "https://")):
            return get_url(where, token, most=MOST_BYTES).decode()
        return read_text(where, MOST_BYTES)
    except ProbeRefusalError as error:
        raise ClusterError(f"{where}: {error}", error.status) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"{where}: {error}") from None


def _note(words: str) -> None:
    streams.note(f"{words}; its defaults are taken")
