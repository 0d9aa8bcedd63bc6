"""Laws of what the commands print: whatever a cluster calls its things is text, shown as it is written."""

from __future__ import annotations

import ast
import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from hypothesis import example, given, settings
from hypothesis import strategies as st

import hetserve.cli
from effort import examples
from hetserve.api import names
from hetserve.api.conditions import ConditionType, Reason
from hetserve.cli.app import app
from hetserve.cli.output.terminal import Block, text_of
from hetserve.placement.pods.requests import GpuSelector
from hetserve.reconcile.events import announcements
from hetserve.reconcile.plans.plan_decision import NOT_PLANNED, Finding, PlanDecision
from hetserve.reconcile.status.build import StatusInputs, build_status
from hetserve.sanitize import sanitize
from hetserve_extender.verbs import wire
from testing.cluster import gpu_node, gpu_pod

Json = dict[str, Any]
TOKENS = ("[/red]", "[b]", "[", "]", "/", "\\", ":smile:", "a", "Z9", " ", "$x$", "$", "é", "界", "%s", "{0}")
CONTROLS = ("\x1b[31m", "\x1b]0;x\x07", "\x9b2J", "\r", "\n", "\t", "\x00", "\x7f", "\u202e", "\u2028", "\ufeff")
hostile = st.lists(st.sampled_from(TOKENS + CONTROLS), min_size=1, max_size=4).map("".join)
ids = hostile.map(lambda text: "".join(text.split()).replace(",", "") or "x")
"""Ids hold neither blanks nor commas, or the annotation cannot be read."""


def run(*command: str, objects: list[Json]) -> Result:
    items = [{"kind": "Pod" if "containers" in one["spec"] else "Node", **one} for one in objects]
    return CliRunner().invoke(app, [*command, "--from", "-"], input=json.dumps({"kind": "List", "items": items}))


def shows(result: Result, *texts: str) -> None:
    """Every text is there as written, whatever lines it was folded into, and nothing else than text is."""
    assert result.exit_code in (0, 3), result.output + repr(result.exception)
    unseen = {one for one in result.output if not one.isprintable()} - {"\n"}
    assert not unseen, f"the terminal is given {unseen}"
    flat = "".join(result.output.split())
    for text in texts:
        assert "".join(sanitize(text).split()) in flat, f"{text!r} is not in\n{result.output}"


@given(product=hostile, id_=ids, model=hostile, name=hostile, node=hostile, words=hostile)
@settings(max_examples=examples(150), deadline=None)
@example(product="x [/red]", id_="[/red]", model="[b]A", name="[/]", node="[b]n", words="[bold]")
@example(product="T4\x1b[2J", id_="\x1b[31m", model="m\nfree", name="p\r", node="n\x9b", words="\u202e")
def test_names_of_others_are_shown_as_written(
    product: str, id_: str, model: str, name: str, node: str, words: str
) -> None:
    there = gpu_node(node, listed=[{"uuid": id_, "product": product, "memoryMiB": 8192}])
    held = gpu_pod(f"h{name}", model=model, node=node, gpu=id_, namespace="n")
    waiting = gpu_pod(f"w{name}", model=model, namespace="n", unschedulable=True)
    waiting["status"]["conditions"][0]["message"] = words
    gated = gpu_pod(f"g{name}", model=model, namespace="n", gates=(names.QUEUE_GATE,))
    stuck = gpu_pod(f"s{name}", memory_mib=f"{words}!", namespace="n", gates=(names.QUEUE_GATE,))
    objects = [there, held, waiting, gated, stuck]
    shows(run("gpus", objects=objects), id_, product, node)
    shows(run("gpus", "-o", "wide", objects=objects), f"n/h{name}")
    shows(run("why", f"h{name}", "-n", "n", objects=objects), f"n/h{name}", id_, product)
    shows(run("why", f"w{name}", "-n", "n", objects=objects), model, product, words)
    shows(run("queue", "-o", "wide", objects=objects), f"n/g{name}", f"n/s{name}", model)


@given(hostile, hostile, hostile)
@settings(max_examples=examples(100))
def test_a_block_shows_its_title_and_lines_as_written(title: str, label: str, text: str) -> None:
    shown = text_of([Block(title, ((label, text),))])
    flat = "".join(shown.split())
    for part in (title, text):
        assert "".join(sanitize(part).split()) in flat
    assert {one for one in shown if not one.isprintable()} <= {"\n"}


@given(st.text())
def test_visible_characters_are_unchanged_and_all_others_are_escaped_distinctly(text: str) -> None:
    shown = sanitize(text)
    assert shown.isprintable()
    assert sanitize(shown) == shown
    assert (shown == text) == text.isprintable()


@pytest.mark.parametrize("name", ["$\\frac$", "$x_$", "$^$\x1b[2J"])
def test_the_picture_is_drawn_whatever_things_are_called(name: str, tmp_path: Path) -> None:
    path = tmp_path / "gpus.svg"
    there = gpu_node(name, listed=[{"uuid": "0", "product": name, "memoryMiB": 8192}])
    shows(run("gpus", "--plot", str(path), objects=[there, gpu_pod("p", model=name, node=name, gpu="0")]))
    assert path.stat().st_size > 0


def test_half_a_surrogate_pair_is_shown_too() -> None:
    """JSON can carry one, and no terminal's encoding can."""
    there = gpu_node("n", listed=[{"uuid": "0", "product": "a\ud800", "memoryMiB": 8192}])
    shows(run("gpus", objects=[there]), r"a\ud800")


@given(file=hostile, name=hostile, field=hostile, value=hostile)
@settings(max_examples=examples(60), deadline=None)
@example(file="\x1b[31m.yaml", name="\x1b]0;x\x07", field="\x9b2J", value="\u202e")
def test_an_error_shows_what_it_quotes_as_written(file: str, name: str, field: str, value: str) -> None:
    """Names of files, objects and fields, and values; an absent file, and a document of standard input."""
    file = f"gone {file}".replace("\x00", "")
    refused(CliRunner().invoke(app, ["plan", file]), file)
    refused(CliRunner().invoke(app, ["gpus", "--from", file]), file)
    document = {"apiVersion": names.API_VERSION, "kind": "InstanceType", "metadata": {"name": name}}
    refused(CliRunner().invoke(app, ["plan", "-"], input=json.dumps(document)), f"InstanceType/{name}")
    document |= {"metadata": {"name": "a"}, "spec": {"price": {"hourly": "1"}, f"x{field}": value}}
    refused(CliRunner().invoke(app, ["plan", "-"], input=json.dumps(document)), f"spec.x{field}")
    foreign = {"apiVersion": "v1", "kind": value, "metadata": {"name": name}}
    refused(CliRunner().invoke(app, ["plan", "-"], input=json.dumps(foreign)), "no InferenceService")


def refused(result: Result, text: str) -> None:
    """Every line is an error's or a note's, of characters that show; one of them holds the text as it is written."""
    assert result.exit_code == 2, result.output + repr(result.exception)
    lines = result.stderr.removesuffix("\n").split("\n")
    assert all(line.startswith(("Error: ", "note: ")) and line.isprintable() for line in lines), lines
    assert any("".join(sanitize(text).split()) in "".join(line.split()) for line in lines), (text, lines)


def test_a_condition_and_its_event_show_what_they_quote() -> None:
    name = "a\x1b[31m\nb\u202e"
    finding = Finding("False", Reason.TEMPLATE_INVALID, f"the API server refuses it: {name}")
    decision = PlanDecision(finding, NOT_PLANNED, NOT_PLANNED)
    status = build_status({"metadata": {"generation": 1}}, decision, StatusInputs(), datetime(2026, 1, 1, tzinfo=UTC))
    (condition,) = [one for one in status["conditions"] if one["type"] == ConditionType.PLANNED]
    assert condition["message"] == f"the API server refuses it: {sanitize(name)}"
    (news,) = announcements({}, {"conditions": [{**condition, "message": finding.message}]})
    assert news.note == condition["message"]


@given(words=hostile)
@settings(max_examples=examples(50))
@example(words="\x1b[31m")
def test_what_the_extender_tells_the_scheduler_shows_too(words: str) -> None:
    """Its words become events of pods: what a pod asks for, and what is said of an object that cannot be read."""
    assert str(GpuSelector(products=(words,), ids_excluded=(words,))).isprintable()
    for answer in (wire.bind_result(words), wire.filter_error(words)):
        assert json.loads(answer)["Error"] == sanitize(words)


def test_errors_and_notes_go_out_by_one_module() -> None:
    """It escapes what does not show, and knows the one prefix of an error."""
    folder = Path(hetserve.cli.__file__).parent
    for path in sorted(folder.glob("*.py")):
        text = path.read_text()
        assert path.name == "said.py" or not re.search(r"echo\(.*err=|[\"']error: ", text), path.name


def test_only_one_module_hands_text_to_the_terminal() -> None:
    """Markup and control characters are dealt with there: another Console or Text would take them as they come."""
    banned = {"rich.text": {"Text"}, "rich": {"print"}, "rich.markup": {"escape"}}
    folder = Path(hetserve.cli.__file__).parent
    for path in sorted(folder.glob("*.py")):
        if path.name in {"terminal.py", "progress.py"}:
            continue
        tree = ast.parse(path.read_text())
        for found in [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]:
            used = {alias.name for alias in found.names} & banned.get(found.module or "", set())
            assert not used, f"{path.name} imports {used} of {found.module}: use hetserve.cli.output.terminal"
        made = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node) == "Console"]
        assert not made, f"{path.name} makes a Console of its own: use hetserve.cli.output.terminal.drawn"


def _called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""
