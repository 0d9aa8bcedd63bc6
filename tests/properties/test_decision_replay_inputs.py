"""`hetserve decision replay` answers whatever JSON it is given: with a replay, or with one line and exit code 2."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.cli.app import app
from hetserve.scaling.plans.answers import Answers
from hetserve.scaling.record.record import decided_on_record, document_text, packed
from hetserve.scaling.record.ring import appended, ring_manifest
from testing.scaling import facts, steady

Json = dict[str, Any]
_, RECORD = decided_on_record("web", "team", facts(steady(60.0), {"t4": 2}), Answers(quick=True))
assert RECORD is not None
RING = ring_manifest(appended((), RECORD), "web", "team", {"kind": "InferenceService", "name": "web", "uid": "u1"})
((KEY, ENTRY),) = ((key, json.loads(text)) for key, text in RING["data"].items())
LIST = {"kind": "List", "items": [RING]}
DOCUMENT = json.loads(document_text(RECORD))
ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    # What the readers look for is among the texts.
    | st.text(max_size=5)
    | st.sampled_from(["NaN", "Infinity", "List", "ConfigMap", packed(RECORD)]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["kind", "data", KEY]), inner),
    max_leaves=3,
)


def places(content: Any) -> Iterator[tuple[Any, Any]]:
    """Every object and list with each of its keys or indexes."""
    pairs = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    for key, inner in pairs:
        yield content, key
        yield from places(inner)


@st.composite
def altered(draw: st.DrawFn, content: Json) -> Any:
    """With any JSON in place of one of its parts, at whatever depth, or of all of it."""
    copy, value = json.loads(json.dumps(content)), draw(ANY)
    place = draw(st.none() | st.sampled_from(list(places(copy))))
    if place is None:
        return value
    holder, key = place
    holder[key] = value
    return copy


def in_ring(entry: Any) -> Json:
    return {**RING, "data": {KEY: json.dumps(entry)}}


@settings(max_examples=examples(300))
@given(altered(LIST) | altered(RING) | altered(ENTRY).map(in_ring) | altered(DOCUMENT))
def test_any_json_is_replayed_or_refused_in_one_line(content: Any) -> None:
    result = CliRunner().invoke(app, ["decision", "replay", "-", "--as-recorded"], input=json.dumps(content))

    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    assert result.exit_code in {0, 1, 2}
    if result.exit_code == 2:
        assert not result.stdout
        assert result.stderr.startswith("Error: stdin: ")
        assert result.stderr.count("\n") == 1
    else:
        assert ("identical" if result.exit_code == 0 else "differs") in result.stdout
