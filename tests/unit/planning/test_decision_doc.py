"""Everything that docs/how-the-decision-is-made.md says is run or computed again."""

# ruff: noqa: RUF001  the page has typographic signs
from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from hetserve.base.units import Seconds, format_money
from hetserve.cli.app import app
from hetserve.demand import kairos_mixture
from hetserve.planning.rates import derive_rates, throughput
from hetserve.testing.data import REPOSITORY
from hetserve.testing.kairos_bound import base_rate_for_large, closed_bound, paper_bound
from hetserve.testing.planning import kairos_types

DOC = (REPOSITORY / "docs" / "how-the-decision-is-made.md").read_text(encoding="utf-8")
COMMANDS = dict(re.findall(r"```console\n\$ hetserve ([^\n]*)\n(.*?)```", DOC, flags=re.DOTALL))
TYPES = {option.name: option for option in kairos_types()}
RATES = derive_rates(
    TYPES["g4dn.xlarge"], tuple(o for o in TYPES.values() if o.name != "g4dn.xlarge"), kairos_mixture(), Seconds(0.35)
)


def test_the_page_shows_commands() -> None:
    assert len(COMMANDS) == 4


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_print_what_the_page_shows(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    result = CliRunner().invoke(app, command.split())
    assert result.output == COMMANDS[command]


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
    large = base_rate_for_large(q_base, r5n.f, r5n.t)
    assert large is not None
    offloaded = aux * (1 - r5n.f) / r5n.f
    bound = closed_bound(1, q_base, aux, r5n.f, r5n.t)
    assert paper_bound(1, q_base, large, aux, r5n.f) == pytest.approx(bound, rel=1e-12)
    slack = (large - offloaded) / large * q_base
    for line in (
        f"s = {r5n.limit}, f = {r5n.f:.4f}, t = {r5n.t:.4f}.",
        f"{RATES.q_aux[1][1]:.3f} q/s, so A = 13 × {RATES.q_aux[1][1]:.3f} = {aux:.3f} q/s.",
        f"{q_base:.3f} × {1 - r5n.f:.4f} / {1 - r5n.t:.4f} = {large:.3f} q/s; with A come C = {offloaded:.3f} q/s",
        f"{aux:.3f} / {r5n.f:.4f} + ({large:.3f} − {offloaded:.3f}) / {large:.3f} × {q_base:.3f}"
        f" = {aux / r5n.f:.3f} + {slack:.3f} = **{bound:.3f} q/s**",
        f"min({q_base:.3f} + {r5n.t:.4f} / {r5n.f:.4f} × {aux:.3f}, {q_base:.3f} / {1 - r5n.t:.4f})"
        f" = min({bound:.3f}, {q_base / (1 - r5n.t):.3f}) = **{bound:.3f} q/s**",
    ):
        assert line in DOC, line
    other = 12 * RATES.q_aux[1][1] + RATES.q_aux[1][2]
    assert f"a t3.xlarge serves {RATES.q_aux[1][2]:.3f} q/s, A falls to {other:.3f} q/s" in DOC
    assert f"bound to {closed_bound(1, q_base, other, r5n.f, r5n.t):.3f} q/s" in DOC
    assert f"{(1 - r5n.f) * 100:.1f} % of the queries are too large for it" in DOC
