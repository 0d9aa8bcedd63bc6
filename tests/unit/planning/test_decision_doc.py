"""Everything that docs/how-the-decision-is-made.md says is run or computed again."""

# ruff: noqa: RUF001  the page has typographic signs
from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from hetserve.base.units import MicroDollarsPerHour, Seconds, format_money
from hetserve.cli.app import app
from hetserve.demand import kairos_mixture
from hetserve.planning import plan
from hetserve.planning.flow.programs.classes import class_table
from hetserve.planning.flow.programs.program import CEILING, fixed, most_load
from hetserve.planning.rates import derive_rates, throughput
from testing.data import REPOSITORY
from testing.kairos_bound import closed_bound
from testing.planning import kairos_types, min_cost, problem

DOC = (REPOSITORY / "docs" / "how-the-decision-is-made.md").read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"```console\n\$ hetserve ([^\n]*)\n(.*?)```", DOC, flags=re.DOTALL))
TYPES = {option.name: option for option in kairos_types()}
RATES = derive_rates(
    TYPES["g4dn.xlarge"], tuple(o for o in TYPES.values() if o.name != "g4dn.xlarge"), kairos_mixture(), Seconds(0.35)
)


def test_the_page_shows_commands() -> None:
    assert len(COMMANDS) == 5


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_print_what_the_page_shows(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    result = CliRunner().invoke(app, command.split())
    assert result.output == COMMANDS[command]


def test_the_readme_shows_lines_of_the_same_answer() -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    [shown] = re.findall(
        r"```\n\$ \.venv/bin/hetserve (plan manifests/samples/rm2\.yaml\n.*?)```", readme, flags=re.DOTALL
    )
    command, *lines = shown.splitlines()
    answer = COMMANDS[command].splitlines()
    assert [line for line in lines if line != "  ..." and line not in answer] == []


def test_rates_of_the_table() -> None:
    limits = {aux.option.name: aux for aux in RATES.auxiliaries}
    for option in TYPES.values():
        rate = throughput(option.profile, kairos_mixture()) or 0.0
        start = f"| {option.name} | {format_money(option.price)} | {rate:.3f} | {rate / option.price * 1e6:.2f} |"
        aux = limits.get(option.name)
        end = " 1000, the largest | 1 | 1 |" if aux is None else f" {aux.limit} | {aux.f:.4f} | {aux.t:.4f} |"
        assert start + end in DOC


def test_the_worked_example() -> None:
    r5n, q_base = RATES.auxiliaries[1], float(RATES.q_base)
    assert r5n.option.name == "r5n.large"
    aux = 13 * RATES.q_aux[1][1]
    bound = closed_bound(1, q_base, aux, r5n.f, r5n.t)
    for line in (
        f"s = {r5n.limit}, f = {r5n.f:.4f}, t = {r5n.t:.4f}.",
        f"{RATES.q_aux[1][1]:.3f} q/s, so A = 13 × {RATES.q_aux[1][1]:.3f} = {aux:.3f} q/s.",
        f"min({q_base:.3f} + {r5n.t:.4f} / {r5n.f:.4f} × {aux:.3f}, {q_base:.3f} / {1 - r5n.t:.4f})"
        f" = min({bound:.3f}, {q_base / (1 - r5n.t):.3f}) = **{bound:.3f} q/s**",
    ):
        assert line in DOC, line
    other = 12 * RATES.q_aux[1][1] + RATES.q_aux[1][2]
    assert f"a t3.xlarge serves {RATES.q_aux[1][2]:.3f} q/s, A falls to {other:.3f} q/s" in DOC
    assert f"bound to {closed_bound(1, q_base, other, r5n.f, r5n.t):.3f} q/s" in DOC
    assert f"{(1 - r5n.f) * 100:.1f} % of the queries are too large for it" in DOC


def test_the_flow_of_the_worked_example() -> None:
    asked = problem(kairos_types(), mix=kairos_mixture(), budget=MicroDollarsPerHour(2_500_000))
    table = class_table(asked)
    counts = {"g4dn.xlarge": 1, "r5n.large": 13}
    found = fixed(table, CEILING, [counts.get(option.name, 0) for option in table.types])
    most = most_load(table, CEILING, budget=2_500_000)
    assert found is not None
    assert most is not None
    assert most.objective_bound == pytest.approx(found.rate, rel=1e-6)
    busy = {}
    for i, option in enumerate(table.types):
        rate = float(found.flow[i].sum())
        if rate:
            milliseconds = float((found.flow[i] * table.means[i]).sum()) / rate * 1e3
            busy[option.name] = f"{rate:.2f} q/s × {milliseconds:.2f} ms = {counts[option.name]} instance"
    assert f"{busy['r5n.large']}s, and {busy['g4dn.xlarge']}." in DOC
    assert f"**{found.rate:.2f} q/s**, the most of any mix for 2.5 $/h" in DOC


def test_what_hetsevs_program_pays() -> None:
    asked = min_cost(kairos_types(), 100, mix=kairos_mixture(), slo_ms=350, saturation_threshold=0.8)
    assert f"pays {format_money(plan(asked, 'ilp').cost)} $/h for the same load" in DOC
