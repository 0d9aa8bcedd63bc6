"""A member that is registered is there everywhere: on the command line, in the chart, in docs/, and it runs."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import throwaway
from harness.components import CHART
from harness.registry_tables import TABLES, with_choices, with_tables
from hetserve.base.units import MiB
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import policy_name
from hetserve.placement.pods.view import parse_pod
from hetserve.planning.search import search, search_space
from hetserve.registry.joining_policies import JOINING_POLICIES
from hetserve.registry.placement_policies import PLACEMENT_POLICIES
from hetserve.registry.planners import OBJECTIVES, PLANNERS, SEARCH_METHODS
from hetserve_extender.settings import Settings
from hetserve_shell.settings import load_settings
from testing.cluster import gpu_pod
from testing.data import REPOSITORY
from testing.planning import kairos_types, problem
from testing.registered import extended

RM2 = str(REPOSITORY / "manifests" / "samples" / "rm2.yaml")
FAST = ("--queries", "300", "--seeds", "1", "--jobs", "1")


@cache
def cli(*arguments: str) -> str:
    """Standard output of a command line that knows the throw-away members."""
    command = [sys.executable, throwaway.__file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def helps(words: str, *command: str) -> bool:
    """Whether the help of a command says this, wherever its lines break."""
    return "".join(words.split()) in "".join(cli(*command, "--help").split())


def table(name: str) -> str:
    return with_tables(f"before\n<!-- begin {name}: generated -->\nold\n<!-- end {name} -->\nafter\n")


def test_a_registered_planner_is_offered_documented_and_run() -> None:
    assert helps("|exhaustive|one-type]", "plan")
    assert helps("kairos-plus, exhaustive and one-type: evaluate by the full simulation", "plan")
    assert helps("Seed of the simulation by flow, kairos-plus and one-type", "plan")
    assert json.loads(cli("plan", RM2, "--planner", "one-type", "-o", "json"))["planner"] == "one-type"
    with throwaway.registered():
        assert "| `one-type` | MaxThroughput, MinCost | takes one type |" in table("planners")


@pytest.mark.deep
def test_a_registered_dispatch_policy_is_offered_documented_and_run() -> None:
    for command in ("plan", "search"):
        assert helps("|clockwork-earliest|queue_head]", command)
    assert helps(f"|clockwork-earliest|queue_head|{JOINING_POLICIES.names[0]}|", "simulate")
    assert helps(
        "clockwork-earliest, queue_head; default: hetserve,kairos,clockwork-least-wait,fcfs,queue_head", "compare"
    )
    answer = cli("simulate", RM2, "--rate", "5", "--slo", "2s", *FAST, "--policy", "queue_head", "-o", "json")
    assert json.loads(answer)["policy"] == "queue_head"
    with throwaway.registered():
        assert "| `queue_head` | serves the head |" in table("dispatch-policies")


def test_a_registered_search_method_is_offered_documented_and_run() -> None:
    assert helps("One or several of kairos-plus, random, annealing, genetic, bayesian, first-one.", "search")
    with throwaway.registered():
        assert "| `first-one` | tries one configuration |" in table("search-methods")
        space = search_space(problem(kairos_types()))
        assert len(search(space, lambda _: 1.0, "first-one").evaluations) == 1


def test_a_registered_placement_policy_is_offered_documented_and_run(tmp_path: Path) -> None:
    assert helps("[WorstFit|DominantWorstFit|BestFit|Spread|PackedWorstFit|FewestFree]", "why")
    assert helps("[WorstFit|DominantWorstFit|BestFit|Spread|PackedWorstFit|FewestFree]", "placement", "replay")
    settings = tmp_path / "settings.yaml"
    settings.write_text("policy: FewestFree\n")
    with throwaway.registered():
        assert "| `FewestFree` | the least free memory | a test |" in table("placement-policies")
        schema = json.loads(with_choices((CHART / "values.schema.json").read_text()))
        extender = schema["properties"]["extender"]["properties"]
        assert extender["policy"]["enum"] == [
            "WorstFit",
            "DominantWorstFit",
            "BestFit",
            "Spread",
            "PackedWorstFit",
            "FewestFree",
        ]
        assert load_settings(Settings, settings, {}).policy == "FewestFree"

        ledger = Ledger()
        gpus = tuple(Gpu(str(n), "V100", MiB(mib)) for n, mib in enumerate((9000, 5000, 7000)))
        ledger.put_node(NodeInventory("n0", "uid-n0", gpus))
        wish = parse_pod(gpu_pod("p", memory_mib=4000, annotations={"hetserve.io/placement-policy": "FewestFree"}))
        assert wish.request is not None
        chosen = decide(ledger.index, wish.request, ["n0"]).chosen
        assert chosen is not None
        assert chosen.places == (("n0", "1"),)


def test_a_policy_that_is_not_registered_is_refused_by_name() -> None:
    with pytest.raises(
        ValueError,
        match=r"'FewestFree' is no placement policy; there are: WorstFit, .*, PackedWorstFit",
    ):
        policy_name("FewestFree")


def test_a_member_is_there_only_inside_the_block() -> None:
    before = PLANNERS.names
    with extended(PLANNERS, throwaway.PLANNER):
        assert PLANNERS.names == (*before, "one-type")
    assert PLANNERS.names == before


def test_every_planner_has_the_one_signature() -> None:
    for member in PLANNERS:
        inspect.signature(member.load()).bind("problem", None, None)


def test_every_search_method_has_the_one_signature() -> None:
    for member in SEARCH_METHODS:
        inspect.signature(member.load()).bind("session", 0)


def test_every_placement_policy_is_a_rank() -> None:
    for member in PLACEMENT_POLICIES:
        inspect.signature(member.load()).bind("index", "request")


def test_each_objective_has_one_default_planner_among_those_made_for_it() -> None:
    for objective in OBJECTIVES:
        (default,) = (member for member in PLANNERS if objective in member.default_for)
        assert objective in default.objectives
    for member in PLANNERS:
        assert {*member.default_for, *member.compared_for} <= {*member.objectives}


def test_no_page_of_the_docs_has_a_table_that_is_not_current() -> None:
    pages = [*(REPOSITORY / "docs").glob("*.md")]
    marked = {page.name: page.read_text() for page in pages if "<!-- begin " in page.read_text()}
    assert marked, "no page has a generated table"
    assert {name: with_tables(text) for name, text in marked.items()} == marked
    assert all(any(f"<!-- begin {name}:" in text for text in marked.values()) for name in TABLES)
