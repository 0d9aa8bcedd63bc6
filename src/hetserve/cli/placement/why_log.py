"""A placement log's records of one pod, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hetserve.cli.cluster.extender import Record
from hetserve.placement.decision.wording import choice_text, refusals_text
from hetserve.placement.log.journal import HEADER, offer_of, refusals_of
from hetserve.placement.log.replay import check_version
from hetserve.placement.pods.view import parse_pod


def decisions_about(records: Iterable[Record], uid: str) -> Iterator[tuple[float, str]]:
    """(time of day, words) of a pod's filters and binds. Raises ReplayError."""
    offset = 0.0
    for record in records:
        call, args = record.get("call"), record.get("args") or {}
        if call == HEADER:
            check_version(record)
            offset = float(record["wall"]) - float(record["t"])
        about = ((args.get("raw") or {}).get("metadata") or {}).get("uid") or (args.get("request") or {}).get("uid")
        if about == uid and call in {"filter", "fix_gpus"}:
            yield float(record["t"]) + offset, _words(call, record)


def _words(call: str, record: Record) -> str:
    if "error" in record:
        return f"{'filter' if call == 'filter' else 'bind'}: {record['message']}"
    result = record["result"]
    if call == "fix_gpus":
        return f"bind: GPU {','.join(result['gpus'])} of {result['node']}"
    if chosen := offer_of(result.get("chosen")):
        return f"filter: {choice_text(chosen, offer_of(result.get('runnerUp')))}"
    passed = result["passed"]["count"] if isinstance(result["passed"], dict) else len(result["passed"])
    passed += result.get("beside", 0)
    if passed:
        return f"filter: {passed} nodes pass"
    request = parse_pod(record["args"]["raw"]).request
    return f"filter: refused; {refusals_text(refusals_of(result.get('refused', ()), request))}"
