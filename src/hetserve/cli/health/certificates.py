"""Whether the certificates of the verbs' port hold: facts in, findings out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hetserve.base.certificates import Certificate, day
from hetserve.base.units import Seconds
from hetserve.cli.health.facts import Facts, SchedulerFact, SideFact, TlsFact, Unread
from hetserve.cli.health.finding import Finding, Level, unread

SOON: Final = Seconds(7 * 86400.0)
"""Time before its end from which a certificate is a problem, as in the chart's alert."""
SKEW: Final = 300.0
"""Seconds by which the issuer's clock may be ahead, as for the extender."""
CHECK: Final = "certificates"
_WHY: Final = "the scheduler's calls are refused, so no pod gets a GPU"
_RENEW: Final = "issue certificates that hold (docs/security.md); leaves are taken without a restart"


def certificates(facts: Facts) -> Iterator[Finding]:
    """Findings about the verbs' port."""
    scheduler, tls = facts.scheduler, facts.tls
    if not isinstance(scheduler, SchedulerFact) or scheduler.url is None:
        yield Finding(CHECK, Level.NOTE, "not looked at: the scheduler's extender is not known")
        return
    secure = scheduler.url.startswith("https://")
    if isinstance(tls, Unread) and secure:
        yield unread(CHECK, tls)
    elif isinstance(tls, TlsFact) and tls.serves != secure:
        yield _at_odds(scheduler.url, serves=tls.serves)
    elif not secure:
        yield Finding(
            CHECK,
            Level.NOTE,
            "none: the verbs are served over plain HTTP",
            "whoever reaches the verbs' port can place pods",
            "choose another tls.mode than Disabled, or rely on a network that enforces the chart's NetworkPolicy",
        )
    elif isinstance(tls, TlsFact):
        yield from _both(tls)


def _at_odds(url: str, *, serves: bool) -> Finding:
    what = f"the scheduler calls {url}, and the extender's settings name {'' if serves else 'no '}certificates"
    return Finding(CHECK, Level.PROBLEM, what, _WHY, "helm upgrade writes both; then restart the scheduler")


def _both(tls: TlsFact) -> Iterator[Finding]:
    extender, scheduler = tls.extender, tls.scheduler
    if extender is None or scheduler is None:
        what = "no Secret holds them: the processes read files of their own, which are not looked at"
        see = "look at hetserve_certificate_expiration_timestamp_seconds of the extender's metrics"
        yield Finding(CHECK, Level.NOTE, what, "a certificate that ends stops the placing of pods", see)
        return
    server = (tls.server_name,) if tls.server_name else ()
    found = [
        *_side(extender, server, scheduler, "scheduler", tls.now),
        *_side(scheduler, tls.client_names, extender, "extender", tls.now),
    ]
    yield from (Finding(CHECK, Level.PROBLEM, what, _WHY, _RENEW) for what in found)
    if not found:
        first = min(side.chain[0].not_after for side in (extender, scheduler))
        yield Finding(CHECK, Level.OK, f"extender and scheduler trust each other, until {day(first)} at the least")


def _side(side: SideFact, names: tuple[str, ...], other: SideFact, whom: str, now: Seconds) -> Iterator[str]:
    """What is wrong with a side's certificate. other: who must trust it, `whom` in words."""
    if side.problem:
        yield f"{side.where} {side.problem}"
        return
    leaf = side.chain[0]
    if words := _end(leaf, now):
        yield f"the certificate of {side.where} {words}"
    if names and not set(names) & set(leaf.names):
        whose = ", ".join(leaf.names) or "nobody"
        yield f"the certificate of {side.where} is for {whose}, not for {' or '.join(names)}"
    if other.problem:
        return
    issuers = [one for one in other.trusted if any(link.issued_by(one) for link in side.chain)]
    if not issuers:
        yield f"the {whom} does not trust who issued the certificate of {side.where}: see ca.crt of {other.where}"
    elif words := _end(max(issuers, key=lambda one: one.not_after), now):
        yield f"the authority that issued the certificate of {side.where} {words}"


def _end(certificate: Certificate, now: Seconds) -> str:
    if certificate.not_before > now + SKEW:
        return f"holds from {day(certificate.not_before)} on"
    if certificate.not_after <= now:
        return f"ended on {day(certificate.not_after)}"
    return f"ends on {day(certificate.not_after)}" if certificate.not_after < now + SOON else ""
