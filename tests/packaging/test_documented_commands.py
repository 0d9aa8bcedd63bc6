"""Commands and manifests that the pages show: commands and options exist, manifests are those of the tree.

What runs each of them, documented_commands.py says.
"""

from __future__ import annotations

import re
import shlex

import click
import yaml

from documented import FENCED, ROOT, shown
from harness.reference_docs import cli_page, helps, kind_page
from hetserve.api.kinds import KINDS
from hetserve.cli.app import app


def unknown(command: str) -> list[str]:
    """Words of a command line that are no command and no option there."""
    known: click.Command = app
    context = click.Context(app)
    odd = []
    for word in shlex.split(command)[1:]:
        if isinstance(known, click.Group) and not word.startswith("-"):
            found = known.get_command(context, word)
            if found is None and not known.invoke_without_command:
                return [word]
            known = found or known
        elif word.startswith("-") and word != "-":
            options = {option for param in known.params for option in (*param.opts, *param.secondary_opts)}
            odd += [word] if word.split("=")[0] not in options | {"-h", "--help"} else []
    return odd


EVERY_PAGE = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
"""The reference and the decisions, too."""
INLINE = re.compile(r"`(?:\.venv/bin/|kubectl )?(hetserve [a-z][^`]*)`")


def test_every_command_that_a_page_shows_exists_with_its_options() -> None:
    for page in EVERY_PAGE:
        text = page.read_text(encoding="utf-8")
        assert {line: odd for line in (*shown(text), *INLINE.findall(text)) if (odd := unknown(line))} == {}, page.name


def test_commands_are_found_and_what_does_not_exist_is_seen() -> None:
    texts = [page.read_text(encoding="utf-8") for page in EVERY_PAGE]
    assert len([line for text in texts for line in shown(text)]) > 80
    assert len([line for text in texts for line in INLINE.findall(text)]) > 60
    text = "```console\n$ hetserve plan x.yaml --budgets 1  # why\n```\n\n    cat x | hetserve why --all | less\n"
    assert list(shown(text)) == ["hetserve plan x.yaml --budgets 1", "hetserve why --all"]
    assert unknown("hetserve plan x.yaml --budgets 1") == ["--budgets"]
    assert unknown("hetserve plans x.yaml") == ["plans"]
    assert unknown("hetserve queue release --all") == []


def test_the_manifests_of_the_first_hour_are_those_of_the_tree() -> None:
    text = (ROOT / "docs" / "getting-started.md").read_text(encoding="utf-8")
    on_the_page = [block for language, block in FENCED.findall(text) if language == "yaml"]
    files = sorted((ROOT / "manifests" / "first").glob("*.yaml"))
    assert sorted(on_the_page) == sorted(path.read_text(encoding="utf-8") for path in files)
    assert {yaml.safe_load(block)["kind"] for block in on_the_page} == {kind.name for kind in KINDS}


def test_the_reference_has_every_command_and_each_says_its_exit_codes() -> None:
    page = cli_page()
    told = dict(helps())
    assert len(told) > 15
    assert [name for name, text in told.items() if f"## {name}\n\n```text\n{text}\n```" not in page] == []
    groups = {"hetserve", "hetserve decision", "hetserve placement", "hetserve profile", "hetserve reference"}
    assert [name for name, text in told.items() if name not in groups and "Exit code" not in text] == []


def test_the_reference_has_every_field_with_default_limits_and_rules() -> None:
    page = kind_page(KINDS["InferenceService"])
    for row in (
        "| `spec.slo.percentile?` | string | `99` | 8 characters or fewer; pattern `",
        "| `spec.load.expectedQPS?` | number |  | above 0; at most 1000000000.0 | queries/s;",
        "| `spec.load.batchSizes[].batch` | integer |  | at least 1; at most 1000000 | items in the query |",
        "| `spec.budget.whenTooLow?` | string | `Shrink` | one of `Shrink`, `Keep` |",
        "| `spec.load` | batchSizes and batchDistribution exclude each other: set one of them |",
    ):
        assert f"\n{row}" in page
    for kind in KINDS:
        crd = yaml.safe_load((ROOT / "crds" / f"{kind.plural}.yaml").read_text(encoding="utf-8"))
        schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        fields = sum(count(schema["properties"][part]) for part in ("spec", "status"))
        rows = re.findall(r"^\| `(?:spec|status)\.[^|]* \| [a-z]", kind_page(kind).split("## Rules")[0], re.MULTILINE)
        assert len(rows) == fields > 5


def count(node: object) -> int:
    if not isinstance(node, dict):
        return 0
    inner = list(node.get("properties", {}).values())
    return len(inner) + sum(map(count, [*inner, node.get("items"), node.get("additionalProperties")]))


def test_troubleshooting_has_every_reason_of_an_event() -> None:
    from hetserve.reconcile.events import DECIDED, LIMITED
    from hetserve_extender.queue.controller import FAIL_OPEN_REASON, UNREADABLE_REASON

    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    reasons = {*DECIDED.values(), LIMITED, FAIL_OPEN_REASON, UNREADABLE_REASON, "PlanChanged", "RolledOut"}
    assert {reason for reason in reasons if f"`{reason}`" not in page.split("## By Event")[1]} == set()
