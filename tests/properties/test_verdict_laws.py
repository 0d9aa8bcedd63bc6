"""Laws of verdicts about readers: none outlives its time, none changes, none is of another, and they are few."""

from __future__ import annotations

from http import HTTPStatus

from hypothesis import given
from hypothesis import strategies as st

from hetserve_shell.kube.reviews import Key, Verdict, Verdicts, key_of

NO = (HTTPStatus.FORBIDDEN, "no")
ADMITTED, REFUSED, MOST = 60.0, 10.0, 3

pairs = st.tuples(st.sampled_from(["a", "b", "c", "d", "e"]), st.sampled_from(["/metrics", "/ledger"]))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("wait"), st.floats(0, 80, allow_nan=False), st.none()),
        st.tuples(st.just("keep"), pairs, st.sampled_from([None, NO])),
        st.tuples(st.just("find"), pairs, st.none()),
    ),
    max_size=60,
)


@given(steps)
def test_a_verdict_found_is_the_last_one_kept_and_young_enough(done: list[tuple[str, object, Verdict]]) -> None:
    now = [0.0]
    verdicts = Verdicts(lambda: now[0], admitted_for=ADMITTED, refused_for=REFUSED, most=MOST)
    kept: dict[Key, tuple[float, Verdict]] = {}
    for what, subject, verdict in done:
        if what == "wait":
            assert isinstance(subject, float)
            now[0] += subject
            continue
        assert isinstance(subject, tuple)
        key = key_of(*subject)
        if what == "keep":
            verdicts.keep(key, verdict, now[0])
            kept[key] = now[0], verdict
        else:
            stands, found = verdicts.find(key)
            if stands:
                at, last = kept[key]
                assert found == last
                assert now[0] - at < (ADMITTED if found is None else REFUSED)
        assert len(verdicts) <= 2 * MOST


@given(st.lists(st.text(min_size=1), max_size=30))
def test_wrong_tokens_push_nobody_out_who_was_let_through(wrong: list[str]) -> None:
    verdicts = Verdicts(lambda: 0.0, most=MOST)
    verdicts.keep(key_of("good", "/metrics"), None, 0.0)
    for token in wrong:
        verdicts.keep(key_of(f"wrong {token}", "/metrics"), NO, 0.0)
    assert verdicts.find(key_of("good", "/metrics")) == (True, None)


@given(st.text(), st.text())
def test_keys_differ_by_token_and_hold_none(one: str, other: str) -> None:
    assert (key_of(one, "/p") == key_of(other, "/p")) == (one == other)
    digest, path = key_of(one, "/p")
    assert (len(digest), path) == (32, "/p")
