"""A finding in words."""

from __future__ import annotations

from modelcheck.explore import Finding
from modelcheck.steps import Step

_WORDS = {
    "filter": "the scheduler filters pod{0} (incarnation {1}) over {2}",
    "filter again": "the scheduler, which is behind, filters pod{0} (incarnation {1}) over {2}",
    "bind": "the scheduler binds pod{0} (incarnation {1}) to {2}",
    "bind again": "the scheduler repeats the bind of pod{0} (incarnation {1}) to {2}",
    "hang up": "the scheduler binds pod{0} (incarnation {1}) to {2} and hangs up",
    "carry out": "the API server carries out request {0}",
    "answer": "its answer to request {0} arrives",
    "lose": "request {0} loses its client",
    "refuse": "request {0} is refused: too many requests",
    "create": "pod{0} is created again, with a new UID",
    "delete": "pod{0} is deleted",
    "terminate": "pod{0} is terminating",
    "finish": "pod{0} has finished",
    "relabel": "the label of pod{0} now names another model",
    "strip": "the annotations of pod{0}, which is bound, are removed",
    "node gone": "node {0} is gone",
    "node back": "node {0} is back, with a new UID",
    "list": "process {0}: its watch broke, the API server reads a list",
    "list arrives": "process {0}: the list arrives",
    "watch": "process {0}: the next event of pod{1} arrives",
    "repeat": "process {0}: the last event of pod{1} arrives again",
    "watch node": "process {0}: the next event of node {1} arrives",
    "restart": "process {0} is killed and starts again",
    "start": "a new process starts in the place of process {0}, which has ended",
    "promote": "process {0} becomes the leader",
    "lapse": "process {0} leads and cannot renew the Lease in time",
    "win back": "process {0} renews the Lease after all: a new term of its own",
    "end": "process {0} leads and ends",
    "release": "the leader's scheduler releases the Lease and ends, and that of process {0} takes it",
    "notice": "process {0} reads that it leads no more",
    "tidy": "process {0} looks up the binds in doubt",
    "time": "time passes {0}",
}

HEAD = f"{'scope':48} {'states':>9} {'transitions':>12} {'depth':>6} {'CPU s':>7}"


def row(finding: Finding) -> str:
    verdict = "" if finding.complete else "  stopped early"
    verdict = "  BROKEN" if finding.wrong else verdict
    return (
        f"{finding.scope:48} {finding.states:9,} {finding.transitions:12,} {finding.depth:6} {finding.seconds:7.1f}"
        + verdict
    )


def story(finding: Finding) -> str:
    lines = [f"{finding.scope}: {finding.wrong}"]
    lines += [f"  {number:2}. {_said(step)}" for number, step in enumerate(finding.trace, start=1)]
    return "\n".join(lines)


def _said(step: Step) -> str:
    kind, *about = step
    return _WORDS[kind].format(*(", ".join(part) if isinstance(part, tuple) else part for part in about))
