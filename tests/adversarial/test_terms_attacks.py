"""The terms on which a pod shares its GPUs, as anybody may write them: read or refused, at once, and by two readers."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from effort import examples
from hetserve.api import names
from hetserve.base.units import Seconds
from hetserve.objects.gpu_sharing import LONGEST_TERMS, MOST_FACTORS, parse_terms, terms_text
from hetserve.placement.check import holdings
from hetserve.placement.decision.wording import texts_by_node
from hetserve.placement.event_handlers import NodeEventHandler, PodEventHandler
from hetserve.placement.ledger.problems import problem_lines
from hetserve.placement.log.journal import JournaledPlacer
from hetserve.placement.log.replay import replay
from hetserve.placement.pods.view import parse_pod
from sharing_terms import terms_of
from testing.cluster import gpu_node, gpu_pod

SHARING = names.ANNOTATION_GPU_SHARING
GOOD: dict[str, Any] = {"share": "0.57", "tolerance": "1.75", "factors": {"*": "1.2", "bert": "1.08"}}


def with_(**fields: Any) -> str:
    return json.dumps(GOOD | fields)


def factors(**named: Any) -> str:
    return with_(factors={"*": "1.2"} | named)


READABLE = {
    "numbers": with_(share=0.57, tolerance=2, factors={"*": 1}),
    "the edges": with_(share="0.000001", tolerance="999999.999999", factors={"*": "1.000000"}),
    "all of the compute": with_(share="1", tolerance="1", factors={"*": "1"}),
    "as many factors as may be": factors(**{f"m{number}": "1.5" for number in range(MOST_FACTORS)}),
    "long names": factors(**{"m" * 63: "1.5"}),
    "escaped digits are digits": with_().replace("0.57", "0.\\u0035\\u0037"),
    "blanks": f"\n  {with_()} \t",
}
WRONG = {
    "no JSON": ("{", "cannot be read"),
    "nothing": ("", "'' cannot be read"),
    "another kind": ("[]", "'[]': must have share, tolerance, factors"),
    "a number": ("7", "'7': must have share, tolerance, factors"),
    "a field too many": (with_(harm="1"), "unknown 'harm': must have share, tolerance, factors"),
    "two fields too many": (with_(b="1", a="1"), "unknown 'a, b': must have share, tolerance, factors"),
    "a field of a very long name": (with_(**{"n" * 500: "1"}), "nnn...': must have share, tolerance, factors"),
    "a field too few": (
        json.dumps({"share": "1", "tolerance": "2"}),
        "missing 'factors': must have share, tolerance, factors",
    ),
    "a field of another name": (with_().replace("share", "Share"), "unknown 'Share', missing 'share': must have"),
    "nothing in it": ("{}", "missing 'share, tolerance, factors': must have share, tolerance, factors"),
    "a key twice": (with_()[:-1] + ', "share": "0.01"}', "a name is there twice"),
    "a model twice": (with_().replace('"bert"', '"*"'), "a name is there twice"),
    "nested deeply": ('{"a":' * 5000 + "1" + "}" * 5000, "cannot be read"),
    "nested in a number's place": (with_(share=[[[[]]]]), "share: 'list' is not a decimal number such as 0.57"),
    "NaN": (with_(share=float("nan")), "share: 'NaN' is not a decimal number"),
    "infinity": (with_(tolerance=float("inf")), "tolerance: 'Infinity' is not a decimal number"),
    "infinity as a text": (with_(tolerance="inf"), "tolerance: 'inf' is not a decimal number"),
    "true": (with_(share=True), "share: 'true' is not a decimal number"),
    "null": (with_(tolerance=None), "tolerance: 'null' is not a decimal number"),
    "an exponent": (with_().replace('"0.57"', "57e-2"), "share: '57e-2' is not a decimal number"),
    "a huge integer": (with_().replace('"1.75"', "9" * 5000), "tolerance: '99999"),
    "a huge exponent": (with_().replace('"1.75"', "1e999999999"), "tolerance: '1e999999999' is not"),
    "a sign": (with_(share="-0.5"), "share: '-0.5' is not a decimal number"),
    "digits of another script": (with_(share="\u0660.\u0665"), "share: '\u0660.\u0665' is not a decimal number"),
    "fullwidth digits": (with_(tolerance="\uff11.\uff17\uff15"), "is not a decimal number"),
    "underscores": (with_(tolerance="1_0"), "tolerance: '1_0' is not"),
    "a line's end": (with_(tolerance="1.75\n"), "is not a decimal number"),
    "seven decimals": (with_(share="0.5700001"), "share: '0.5700001' is not a decimal number"),
    "no share": (with_(share="0"), "share: 0 must be above 0 and at most 1"),
    "more than all": (with_(share="1.000001"), "share: 1.000001 must be above 0 and at most 1"),
    "no tolerance": (with_(tolerance="0.999999"), "tolerance: 0.999999 must be at least 1"),
    "a factor that speeds up": (factors(bert="0.99"), "factors.bert: 0.99 must be at least 1"),
    "no factor for others": (with_(factors={"bert": "1.1"}), "factors: must be an object with '*'"),
    "a list of factors": (with_(factors=["*", "1"]), "factors: must be an object with '*'"),
    "too many factors": (factors(**{f"m{n}": "1.5" for n in range(MOST_FACTORS + 1)}), "at most 256 others"),
    "a model that no label can be": (factors(**{"a b": "1.5"}), "factors: 'a b' is no value of label"),
    "an empty model": (factors(**{"": "1.5"}), "factors: '' is no value of label"),
    "a long model": (factors(**{"m" * 64: "1.5"}), "is no value of label"),
    "half a surrogate pair": (factors(**{"\ud800": "1.5"}), "is no value of label"),
    "a model and a line's end": (factors(**{"bert\n": "1.5"}), "is no value of label"),
    "very long": (with_() + " " * LONGEST_TERMS, f"characters are more than {LONGEST_TERMS}"),
}


def bound(text: Any) -> dict[str, Any]:
    return gpu_pod(compute=100, annotations={SHARING: text}, node="n0", gpu="0")


@pytest.mark.parametrize("text", READABLE.values(), ids=READABLE)
def test_what_can_be_read_is_read_by_ledger_and_checker_alike(text: str) -> None:
    terms = parse_terms(text)
    (holding,) = holdings([bound(text)])
    assert holding.terms == (terms.share, terms.tolerance, terms.others, terms.named)
    assert parse_terms(terms_text(terms)) == terms


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG)
def test_what_cannot_be_read_is_refused_in_words_and_books_the_whole_gpu(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^annotation {SHARING}: ") as error:
        parse_terms(text)
    assert words in str(error.value)
    assert len(str(error.value)) < 400, "an event holds it"
    view = parse_pod(bound(text))
    assert (view.request.sharing, view.request.compute, view.complaint) == (None, 100, str(error.value))
    assert holdings([bound(text)])[0].terms is None


@pytest.mark.parametrize("text", [7, True, ["x"], {"share": "1"}])
def test_an_annotation_that_is_no_text_is_refused(text: Any) -> None:
    view = parse_pod(bound(text))
    assert view.request.sharing is None
    assert view.complaint is not None
    assert view.complaint.startswith(f"annotation {SHARING}: ")
    assert holdings([bound(text)])[0].terms is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=4) | st.sampled_from(["1", "0.5"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["*", "a", "share"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=examples(2000))
@given(terms_of("ab"), st.data())
def test_both_readers_read_the_same_texts(terms: Any, data: st.DataObject) -> None:
    """Good terms, of which a value or some characters were replaced."""
    text = terms_text(terms)
    if data.draw(st.booleans()):
        found = json.loads(text)
        into = data.draw(st.sampled_from([found, found["factors"]]))
        into[data.draw(st.sampled_from([*into, "b", "more"]))] = data.draw(JSON)
        text = json.dumps(found)
    else:
        at = data.draw(st.integers(0, len(text)))
        text = (
            text[:at]
            + data.draw(st.text('{}[]":,.019eE-+ \\/an*٣\n', max_size=2))
            + text[at + data.draw(st.integers(0, 2)) :]
        )
    read, (holding,) = parse_pod(bound(text)).request.sharing, holdings([bound(text)])
    assert holding.terms == (None if read is None else (read.share, read.tolerance, read.others, read.named))


def test_spoiled_terms_stop_nobody_else_and_the_log_replays() -> None:
    written: list[Any] = []
    placer = JournaledPlacer(lambda: Seconds(1.0), Seconds(30.0), written.append)
    written.append(placer.header(0.0))
    NodeEventHandler(placer).replace([gpu_node("n0", gpus=3, memory_mib=16384)])
    spoiled = [text for text, _ in WRONG.values()]
    pods = [
        gpu_pod(f"p{number}", memory_mib=1, compute=100, model=None, annotations={SHARING: text}, node="n0", gpu="1")
        for number, text in enumerate(spoiled)
    ]
    PodEventHandler(placer).replace([*pods, gpu_pod("good", sharing=parse_terms(with_()), node="n0", gpu="0")])
    newcomer = gpu_pod("new", model="new", sharing=parse_terms(READABLE["as many factors as may be"]))
    assert placer.filter(newcomer, ["n0"]).passed == ("n0",)
    assert [use.booked_compute for use in placer.ledger.gpus()] == [69, 100 * len(spoiled), 0]
    for number, text in enumerate(spoiled):
        asking = gpu_pod(f"w{number}", compute=100, annotations={SHARING: text})
        with pytest.raises(ValueError, match=SHARING):
            placer.filter(asking, ["n0"])
    assert sum("cannot be read" in line for line in problem_lines(placer.ledger.problems())) >= 3
    written.append(placer.journaled.checkpoint())
    log = [orjson.loads(orjson.dumps(record)) for record in written]
    (kept,) = [one for one in log[-1]["args"]["bookings"] if one["request"]["name"] == "good"]
    assert kept["request"]["sharing"].keys() == {"share", "tolerance", "others", "named"}
    assert replay(log).difference is None


def test_the_words_of_a_refusal_hold_no_sign_that_the_scheduler_would_take_for_a_format() -> None:
    placer = JournaledPlacer(lambda: Seconds(1.0), Seconds(30.0), lambda _record: None)
    NodeEventHandler(placer).replace([gpu_node("n0", gpus=1)])
    PodEventHandler(placer).replace([gpu_pod("a", sharing=parse_terms(with_(tolerance="1")), node="n0", gpu="0")])
    newcomer = gpu_pod("b", model="m", sharing=parse_terms(factors(m="999999.999999")))
    (text,) = texts_by_node(placer.filter(newcomer, ["n0"]).refusals).values()
    assert "would take 1.2 times as long as alone" in text
    assert "%" not in text
