"""The reader of manifests beside kubectl's own, without a server: `kubectl label --local` prints what it has read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
import yaml

from harness.tools import Toolset
from hetserve.base.yaml_loader import compose, content_of

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
NUMBERS = (
    "5e-05 5E-05 1e3 1E5 1e+3 1e-7 -5e-05 +1 +1.5 .5 +.5 -.5 5. .5e3 1.0 -0 -0.0 0o14 014 08 09.5 0x1F 0X1f 0b11 -0b11 "
    "0B11 0O14 -0x1 1_000 1_0.5 1__0 1_ 0_7 0x_1F .1_0 1e5_0 1e20 1e21 18446744073709551616 9223372036854775807 "
    "1.7976931348623157e308 100000000000000000000000 0xffffffffffffffff 0x8000000000000000 -0x8000000000000000 "
    "01777777777777777777777 0o1777777777777777777777 .1_0_0 .5e1_0 +._5 -.5_"
)
WORDS = "~ null Null NULL y n Y N yes Yes No NO on ON off Off true True TRUE false"
TEXTS = (
    "1:30 1:30:45.5 2026-01-01 2026-01-01T00:00:00Z = << _1 tRue nULL 1e400 -1e400 1.5e 1e e5 . .. + 0x 0o8 0b2 .e1 "
    "-.nan 123abc '5' \"5\" +0xffffffffffffffff -0x8000000000000001 0x10000000000000000 ._5 .5_ .1__0 .5_e3 .5e_1 ._"
)
TAGGED = ("", "!!str 5", "!!int '5'", "!!float 1", "!!float '1e3'", "!!bool 'yes'", "!!timestamp 2026-01-01", "! 5")
SCALARS = (*NUMBERS.split(), *WORDS.split(), *TEXTS.split(), *TAGGED)
OBJECT = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},'
DOCUMENTS = {
    "keys that are no text": HEAD + "v: {1: a, on: b, 2026-01-01: c, .5: d}",
    "a merge": HEAD + "b: &b {x: 1, z: 2}\nv: {<<: *b, x: 3}",
    "a merge of several": HEAD + "b: &b {x: 1}\nc: &c {x: 2, z: 1}\nv: {<<: [*b, *c]}",
    "a merge of a merge": HEAD + "b: &b {x: 1}\nc: &c {<<: *b, x: 2}\nv: {<<: *c, z: 3}",
    "a merge after what it replaces": HEAD + "b: &b {x: 1}\nv: {x: 3, <<: *b}",
    "a merge of several after it": HEAD + "b: &b {x: 1}\nc: &c {x: 2, z: 1}\nv: {x: 3, <<: [*b, *c], z: 9}",
    "merges between": HEAD + "b: &b {x: 1}\nc: &c {x: 5}\nd: &d {<<: *b, x: 7, <<: *c}\nv: {<<: *d, q: 2}",
    "a quoted <<": HEAD + "b: &b {x: 1}\nv: {'<<': *b}",
    "a key that is tagged a merge": HEAD + "b: &b {x: 1}\nv: {!!merge x: *b}",
    "tabs on a line": "---\t\n" + HEAD + "v:\t1\t# c\nw\t: &a\t'b'\t\nx:\t\n  - [1\t,\t2]\nz: {\ta: 1,\n  b: 2\t}\n",
    "JSON with tabs and escapes": '{\n\t"apiVersion":"v1",\n\t"kind":"ConfigMap","metadata":{"name":"a"},\n\t'
    '"v":{"x":1.0,"y":1e3,"z":5e-05,"w":"\\/\\ud83d\\ude00"}}',
    "JSON with a comma too many": OBJECT + '"v":{"x":[1,]}}',
    "flow that is no JSON": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, v: {x: yes}}",
    "JSON after blank lines": "\n\n  " + OBJECT + '"v":{}}',
    "lines of Windows": (HEAD + "v: {x: 1}\n").replace("\n", "\r\n"),
}
REFUSED = {
    "an anchor that holds itself": HEAD + "v: &a [*a]",
    "aliases of aliases": HEAD
    + "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{c}: &{c} [{','.join(['*' + p] * 10)}]\n" for p, c in zip("abcdef", "bcdefg", strict=True)),
    "a key that is nothing": HEAD + "v: {~: a}",
    "a key that is a list": HEAD + "v: {[1]: a}",
    "a merge of a number": HEAD + "v: {<<: [1]}",
    "a tab that indents in a list": HEAD + "v: [a\n\t]",
    "a tab after a dash": HEAD + "v:\n-\tx: 1",
    "a tab on a blank line": HEAD + "v:\n  - 1\n\t\n  - 2",
    "a tab": HEAD + "v:\n\tx: 1",
    "a control character": HEAD + 'v: "\x07"',
    "an alias of nothing": HEAD + "v: *x",
    "another tag's value": HEAD + 'v: !!int "x"',
}


def as_kubectl(toolset: Toolset, text: str) -> Any:
    """What kubectl makes of a document; None where it refuses it."""
    command = [toolset["kubectl"], "label", "--local", "-f", "-", "a=b", "-o", "json"]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode:
        return None
    found: Any = json.loads(done.stdout)
    del found["metadata"]["labels"]
    return found


def as_ours(text: str) -> Any:
    (content,) = (content_of(node) for node in compose(text))
    return content


def differences(toolset: Toolset, scalars: Sequence[str]) -> dict[str, tuple[Any, Any]]:
    """What is read in two ways: {text: (kubectl's value, ours)}."""
    text = HEAD + "v:\n" + "".join(f"  - {one}\n" for one in scalars)
    pairs = zip(scalars, as_kubectl(toolset, text)["v"], as_ours(text)["v"], strict=True)
    return {written: (there, here) for written, there, here in pairs if not _alike(there, here)}


def _alike(there: Any, here: Any) -> bool:
    if type(there) is type(here):
        return bool(there == here)
    # Beyond 64 bits JSON's whole numbers are floats, however they are printed.
    numbers = {type(there), type(here)} == {int, float}
    return numbers and abs(float(there)) >= 2**63 and float(there) == float(here)


def test_every_form_of_a_scalar_is_read_alike(toolset: Toolset) -> None:
    assert differences(toolset, SCALARS) == {}


@pytest.mark.parametrize("case", DOCUMENTS)
def test_a_document_is_read_alike(case: str, toolset: Toolset) -> None:
    assert as_ours(DOCUMENTS[case]) == as_kubectl(toolset, DOCUMENTS[case])


@pytest.mark.parametrize("case", REFUSED)
def test_what_kubectl_refuses_is_refused(case: str, toolset: Toolset) -> None:
    assert as_kubectl(toolset, REFUSED[case]) is None
    with pytest.raises(yaml.MarkedYAMLError) as caught:
        as_ours(REFUSED[case])
    assert caught.value.problem_mark is not None


def test_whatever_looks_like_a_number_is_read_alike(toolset: Toolset) -> None:
    parts = (
        ("", "+", "-"),
        ("", "0x", "0o", "0b", "0"),
        ("", ".", "1", "17_", "08", "1.5", "_1"),
        ("", "e", "E5", "e-7"),
    )
    scalars = set(map("".join, product(*parts)))
    assert differences(toolset, sorted(scalars - {"-"})) == {}
