"""The doctor on routers: instances that refuse them, and services whose load is counted twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from hetserve.cli.cluster.client import ClusterClient, ClusterError, namespaced
from hetserve.cli.cluster.extender import settings_map
from hetserve.cli.cluster.routers import ROUTER, Json, leaders, shown_by_leaders
from hetserve.cli.health.judgement import OPERATOR, CheckFinding, Level, Unread, some
from hetserve.cli.health.workloads import mapping_in, read
from hetserve.demand.contract import REQUESTS

CHECK: Final = "queries"
_LOADS: Final = f'group by (namespace, service, job, instance) ({REQUESTS}{{outcome="received"}})'
_NONE_REFUSES, _ALL_ONCE = "no instance refuses a router", "no load is counted twice"
_ALLOW: Final = (
    "let the router's pods reach the container port (a NetworkPolicy that allows them, a mesh that is not STRICT for "
    "it), or look at the instances' logs"
)


def routing_findings(cluster: ClusterClient, namespace: str) -> Iterator[CheckFinding]:
    """Nothing where no router is installed, or its settings may not be read. namespace: of hetserve."""
    if not isinstance(read(lambda: settings_map(cluster, namespace, ROUTER)), dict):
        return
    refusing, twice = _refusing(cluster, namespace), _counted_twice(cluster, namespace)
    if isinstance(refusing, Unread):
        why, do = "an instance that refuses the router serves nobody", "ask again as somebody who may forward ports"
        yield CheckFinding(CHECK, Level.UNKNOWN, f"who refuses the router is not checked: {refusing.why}", why, do)
    else:
        yield from (CheckFinding(CHECK, Level.PROBLEM, one, "they get no query", _ALLOW) for one in refusing or ())
    if isinstance(twice, Unread):
        why, do = "a load that is counted twice buys too much", "ask Prometheus: count by (namespace, service, job)"
        yield CheckFinding(CHECK, Level.NOTE, f"whether loads are counted twice is not known: {twice.why}", why, do)
    else:
        why, do = "the operator adds them up, and buys too much", "stop the load twin of this service, or its router"
        yield from (CheckFinding(CHECK, Level.PROBLEM, one, why, do) for one in twice or ())
    well = [what for what, found in ((_NONE_REFUSES, refusing), (_ALL_ONCE, twice)) if found == []]
    if well:
        yield CheckFinding(CHECK, Level.OK, ", ".join(well))


def _refusing(cluster: ClusterClient, namespace: str) -> list[str] | Unread | None:
    """A line for each service; None: no router leads that has a pod to ask."""
    try:
        if not leaders(cluster, namespace):
            return None
        lines = shown_by_leaders(cluster, namespace, "/refusing")
    except ClusterError as error:
        return Unread(error.message)
    return [
        f"instances of {line['namespace']}/{line['service']} refuse the router: "
        + some(tuple(f"{name} ({why})" for name, why in sorted(line["instances"].items())))
        for line in lines
    ]


def _counted_twice(cluster: ClusterClient, namespace: str) -> list[str] | Unread | None:
    """A line for each service that several targets export; None: the operator's Prometheus is none of the cluster's."""
    try:
        settings = mapping_in(settings_map(cluster, namespace, OPERATOR), OPERATOR) or {}
        path = _proxied(str(((settings.get("metrics") or {}).get("prometheus") or {}).get("url") or ""))
        if path is None:
            return None
        answer: Json = cluster.get(f"{path}/api/v1/query?{urlencode({'query': _LOADS})}")
    except ClusterError as error:
        return Unread(error.message)
    targets: dict[str, list[str]] = {}
    for series in (answer.get("data") or {}).get("result") or ():
        labels: dict[str, Any] = series["metric"]
        title = f"{labels.get('namespace')}/{labels.get('service')}"
        targets.setdefault(title, []).append(f"{labels.get('job')} {labels.get('instance')}")
    twice = sorted((title, tuple(sorted(found))) for title, found in targets.items() if len(found) > 1)
    return [f"the load of {title} is counted by {' and by '.join(found)}" for title, found in twice]


def _proxied(url: str) -> str | None:
    """Path at the API server of a Service that a URL names; None: it names none."""
    parts = urlsplit(url)
    name, _, rest = (parts.hostname or "").partition(".")
    where, _, domain = rest.partition(".")
    if not where or (domain and domain.split(".")[0] != "svc"):
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    service = quote(f"{parts.scheme}:{name}:{port}", safe=":")
    return f"{namespaced('v1', where, 'services')}/{service}/proxy{parts.path.rstrip('/')}"
