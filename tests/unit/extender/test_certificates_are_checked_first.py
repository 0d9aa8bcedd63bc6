"""`check-certificates`: what would keep the scheduler from its extender is named before either runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from authorities import CLIENT, PAST, SERVER, Authority, Leaf, put
from documented_commands import ON_CERTIFICATES
from hetserve_extender.main import main

FUTURE = ("20600101000000Z", "20610101000000Z")


def around_now(begin: timedelta, end: timedelta) -> tuple[str, str]:
    """Time of a certificate that begins and ends so much from now."""
    now = datetime.now(UTC)
    first, last = ((now + part).strftime("%Y%m%d%H%M%SZ") for part in (begin, end))
    return first, last


@dataclass
class Bench:
    """The Secrets of both sides as they are mounted, which fit together at first."""

    folder: Path
    authority: Authority
    other: Authority

    def extender(self, leaf: Leaf, *trusted: Authority) -> Path:
        return put(self.folder / "extender", leaf, *(trusted or (self.authority,)))

    def scheduler(self, leaf: Leaf, *trusted: Authority) -> Path:
        return put(self.folder / "scheduler", leaf, *(trusted or (self.authority,)))

    def check(self, *more: str, names: tuple[str, ...] = (CLIENT,), server: str = SERVER) -> Result:
        sides = [word for side in ("extender", "scheduler") for word in (f"--{side}", str(self.folder / side))]
        given = ["--server-name", server, *(word for name in names for word in ("--client-name", name))]
        return CliRunner().invoke(main, ["check-certificates", *sides, *given, *more])


@pytest.fixture(scope="module")
def authorities(tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    folder = tmp_path_factory.mktemp("pki")
    return Authority(folder, "one"), Authority(folder, "other")


@pytest.fixture(scope="module")
def leaves(authorities: tuple[Authority, Authority]) -> tuple[Leaf, Leaf]:
    """Of the extender and the scheduler, as they should be."""
    return authorities[0].server(), authorities[0].leaf(CLIENT)


@pytest.fixture
def bench(tmp_path: Path, authorities: tuple[Authority, Authority], leaves: tuple[Leaf, Leaf]) -> Bench:
    made = Bench(tmp_path, *authorities)
    made.extender(leaves[0])
    made.scheduler(leaves[1])
    return made


Change = Callable[[Bench], object]
BROKEN: dict[str, tuple[Change, tuple[str, ...]]] = {
    "the extender's has ended": (
        lambda b: b.extender(b.authority.server(when=PAST)),
        (f"extender/tls.crt: {SERVER} ended on 2020-02-01 00:00 UTC; issue a new one",),
    ),
    "the scheduler's has ended": (
        lambda b: b.scheduler(b.authority.leaf(CLIENT, when=PAST)),
        (f"scheduler/tls.crt: {CLIENT} ended on 2020-02-01 00:00 UTC; issue a new one",),
    ),
    "both have": (
        lambda b: (b.extender(b.authority.server(when=PAST)), b.scheduler(b.authority.leaf(CLIENT, when=PAST))),
        (f"extender/tls.crt: {SERVER} ended", f"scheduler/tls.crt: {CLIENT} ended"),
    ),
    "the scheduler's holds only later": (
        lambda b: b.scheduler(b.authority.leaf(CLIENT, when=FUTURE)),
        (f"scheduler/tls.crt: {CLIENT} holds from 2060-01-01 00:00 UTC on",),
    ),
    "no certificate": (
        lambda b: (b.folder / "scheduler" / "tls.crt").unlink(),
        ("scheduler/tls.crt: cannot be read: No such file or directory; mount the Secret that holds it",),
    ),
    "another's key": (
        lambda b: (b.folder / "scheduler" / "tls.key").write_text(b.other.leaf(CLIENT).key.read_text()),
        ("scheduler/tls.key: is not the key of the certificate in",),
    ),
    "the extender's for another name": (
        lambda b: b.extender(b.authority.server("web.example")),
        (f"extender/tls.crt: has no DNS name {SERVER}, it is for web.example; issue one with subjectAltName DNS:",),
    ),
    "the scheduler's for another name": (
        lambda b: b.scheduler(b.authority.leaf("somebody")),
        (f"scheduler/tls.crt: its certificate is for somebody, not for {CLIENT}; issue one with such a",),
    ),
    "both for another name": (
        lambda b: (b.extender(b.authority.server("a.b")), b.scheduler(b.authority.leaf("somebody"))),
        ("extender/tls.crt: has no DNS name", "scheduler/tls.crt: its certificate is for somebody"),
    ),
    "an authority whom the scheduler does not trust": (
        lambda b: b.extender(b.other.server()),
        ("scheduler/ca.crt: does not hold who signed",),
    ),
    "an authority whom the extender does not trust": (
        lambda b: b.scheduler(b.other.leaf(CLIENT)),
        ("extender/ca.crt: does not hold who signed",),
    ),
    "an authority of the same name and another key": (
        lambda b: b.scheduler(Authority(b.folder / "forged", "one").leaf(CLIENT)),
        ("extender/ca.crt: does not hold who signed",),
    ),
    "each has the other's": (
        lambda b: (b.extender(b.authority.leaf(SERVER)), b.scheduler(b.authority.server(CLIENT))),
        ("certificate purpose; issue one that does, for the usage server auth", "for the usage client auth"),
    ),
}


@pytest.mark.parametrize(("change", "words"), BROKEN.values(), ids=BROKEN)
def test_what_keeps_the_sides_apart_is_named_with_file_and_remedy(
    bench: Bench, change: Change, words: tuple[str, ...]
) -> None:
    change(bench)
    done = bench.check()
    lines = done.stderr.splitlines()
    assert (done.exit_code, done.stdout) == (2, "")
    assert len(lines) == len(words), "one line for each fault"
    for line, part in zip(lines, words, strict=True):
        assert line.startswith(f"Error: {bench.folder}/")
        assert part in line


def test_the_documented_command_finds_them_fit(bench: Bench) -> None:
    (command,) = ON_CERTIFICATES
    for side in ("extender", "scheduler"):
        command = command.replace(f"--{side} DIR", f"--{side} {bench.folder / side}")
    program, *words = shlex.split(command)
    done = CliRunner().invoke(main, words)
    assert (program, done.exit_code) == ("hetserve-extender", 0)
    assert done.stdout.startswith("extender and scheduler trust each other")


def test_certificates_that_fit_together_pass_and_the_first_end_is_told(bench: Bench) -> None:
    bench.scheduler(bench.authority.leaf(CLIENT, when=("20200101000000Z", "20600401123000Z")))
    bench.extender(bench.authority.server(when=("20200101000000Z", "20600301123000Z")))
    done = bench.check()
    assert (done.exit_code, done.stdout) == (
        0,
        "extender and scheduler trust each other, until 2060-03-01 12:30 UTC at the least\n",
    )


@pytest.mark.parametrize("names", [(), ("first", CLIENT)])
def test_any_of_the_names_will_do_and_no_name_lets_in_whoever_was_signed(bench: Bench, names: tuple[str, ...]) -> None:
    assert bench.check(names=names).exit_code == 0


def test_an_authority_of_each_side_is_enough_where_the_other_trusts_it(bench: Bench) -> None:
    bench.extender(bench.other.server(), bench.authority)
    bench.scheduler(bench.authority.leaf(CLIENT), bench.other)
    assert bench.check().exit_code == 0


def test_a_bundle_is_trusted_instead_of_what_the_secrets_hold(bench: Bench) -> None:
    bench.extender(bench.other.server())
    bundle = bench.folder / "all.pem"
    bundle.write_text(bench.authority.pem + bench.other.pem)
    assert bench.check("--trust", str(bundle)).exit_code == 0
    bundle.write_text(bench.authority.pem)
    assert f"{bundle}: does not hold who signed" in bench.check("--trust", str(bundle)).stderr


def test_a_name_with_a_star_is_taken_as_the_scheduler_takes_it(bench: Bench) -> None:
    bench.extender(bench.authority.server("*.hetserve-system.svc"))
    assert bench.check().exit_code == 0
    assert bench.check(server="hetserve-extender.elsewhere.svc").exit_code == 2


def test_an_issuers_clock_may_be_ahead_by_minutes(bench: Bench) -> None:
    soon = around_now(timedelta(minutes=2), timedelta(days=1))
    bench.extender(bench.authority.server(when=soon))
    bench.scheduler(bench.authority.leaf(CLIENT, when=soon))
    assert bench.check().exit_code == 0
    bench.scheduler(bench.authority.leaf("somebody", when=soon))
    assert "is for somebody" in bench.check().stderr, "the rest is looked at all the same"
    late = around_now(timedelta(minutes=20), timedelta(days=1))
    bench.scheduler(bench.authority.leaf(CLIENT, when=late))
    assert "set the clock right" in bench.check().stderr


def test_an_authority_that_has_ended_beside_one_that_holds_signs_for_nobody(bench: Bench) -> None:
    ended = Authority(bench.folder / "before", "before", when=PAST)
    bench.scheduler(ended.leaf(CLIENT))
    bench.extender(bench.authority.server(), bench.authority, ended)
    assert "scheduler/tls.crt: who signed it has ended" in bench.check().stderr
