"""docs/results/operator.md from kept measurements: a table for each size, one column for each operator."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.reporting import Json, Kept, table, verdict

KEPT: Final = Kept("operator")
SIZES: Final = {
    "full": ("Full size", "declared"),
    "quick": ("Quick size", "declared --quick"),
    "scaled": ("Services that follow their loads", "scaled"),
    "scaled-quick": ("Services that follow their loads, quick size", "scaled --quick"),
}
"""Title, and flags that measure it alone."""

_HEAD: Final = """# The operator, measured

`make bench-operator` measures the full sizes and `make bench-operator FLAGS=--quick` a tenth of them; both write this
page. `FLAGS=declared` or `FLAGS=scaled` is one of the two parts. The control plane is real: etcd, kube-apiserver,
kube-controller-manager, our scheduler and extender. KWOK plays nodes and kubelets. Everything runs on the one machine
that is named under each table; if others use that machine at rest too, times are longer than the operator's own.

Half of the services ask for the most throughput under a budget, half for the least cost under a load; each has four
instance types, and no two have the same budget or load. A tenth of them may use a type that has no nodes: their plan is
not the ideal one, so they plan again when free capacity changes. The installation is set up once: every service is
Ready, every pod bound. Then each operator runs on it in turn:

1. **Start.** From the start of the process until every service was looked at: until `/metrics` has
   `hetserve_service_ready` for each.
2. **Rest.** A minute in which nothing happens, after the last plan and the last write. Processor time and resident
   memory are those of the operator's own process; its planner processes are counted apart. Requests are from the API
   server's audit log.
3. **Edits.** One service after the other gets another budget or load, while five bound pods a second come or go.
   Measured is the time from the edit until the status covers it, which is the first write: the operator records a plan
   before it follows it.
4. **Burst.** Services are created at once, and deleted afterwards.

The services that follow their loads are all MinCost, with `metrics` and `scaling` as they are by default and a budget
that holds nothing back. A real Prometheus scrapes an exporter of the contract each 15 s: for every service a rate that
is drawn anew in each minute, up to 10 % more or less than the declared one, so that a rest is a rest under noise. They
are edited in their budgets. The rest begins once Prometheus knows all windows and planners have worked out what the
instances of every service hold, and what fewer would, as far as no status had it yet; so does the set-up's operator
before it is stopped. More is measured:

5. **Loop.** `/healthz` of the operator is asked 50 times a second: its event loop answers, or is busy for so long.
6. **Prometheus.** What it was asked in five polls, by its own metrics: with one window for all services; with three;
   and with one, but nine of ten services without `metrics` (their loads are exported all the same).
7. **Load.** The load of five services doubles, one after the other. Measured is the time from that moment until a
   Deployment has more instances. The rate's window (1m), the scrape and the poll (15 s each) and the window of scaling
   up (30 s) are in it.
8. **Cut.** Prometheus is frozen: it accepts connections and answers nothing. Then five services have their budget cut
   below what they cost, one after the other. Measured is the time until their Deployments cost no more.
"""

Rounds = Sequence[Json]


@dataclass(frozen=True, slots=True)
class Row:
    """A figure of the table. value: of one round, None if the time limit came first. below: the goal."""

    words: str
    value: Callable[[Json], Any]
    unit: str
    below: float | None = None
    goal_words: str = ""

    def cell(self, rounds: Rounds, *, judged: bool) -> str:
        """Median of the rounds, with least and most if there are several; if `judged`, the verdict of the median."""
        found = [self.value(one) for one in rounds]
        if any(value is None for value in found):
            text, held = "not within the limit", False
        else:
            middle = statistics.median(found)
            text, held = f"{figure(middle)} {self.unit}".strip(), self.below is None or middle < self.below
            text += f" ({figure(min(found))}-{figure(max(found))})" if len(found) > 1 else ""
        return f"{text}, {verdict(held)}" if judged and self.below is not None else text

    @property
    def goal(self) -> str:
        return "" if self.below is None else f"< {self.below:g} {self.unit}".strip()


ROWS: Final = (
    Row("start: until all services were looked at", lambda one: one["start"]["lookedAt"], "s", 60.0),
    Row("start: until the last plan and write", lambda one: one["start"]["quiet"], "s"),
    Row("start: plans", lambda one: one["start"].get("plans"), ""),
    Row("rest: processors", lambda one: one["rest"]["cores"], "cores", 0.2),
    Row("rest: resident memory", lambda one: one["rest"]["mib"], "MiB", 300.0),
    Row("rest: processors of the planner processes", lambda one: one["rest"]["plannerCores"], "cores"),
    Row("rest: memory of the planner processes", lambda one: one["rest"]["plannerMiB"], "MiB"),
    Row("rest: processors of the machine in use, 1 is all", lambda one: one["rest"]["machineBusy"], ""),
    Row("rest: requests", lambda one: one["rest"]["requestsPerSecond"], "/s"),
    Row("rest: writes", lambda one: sum(one["rest"]["writes"].values()), ""),
    Row("edit: until the first write, median", lambda one: middle_of(one["edits"]["seconds"]), "s", 2.0),
    Row("edit: until the first write, worst", lambda one: worst_of(one["edits"]["seconds"]), "s"),
    Row("edit: processors meanwhile", lambda one: one["edits"]["cores"], "cores"),
    Row("edit: plans meanwhile", lambda one: one["edits"]["plans"], ""),
    Row("burst: until all have a plan", lambda one: one["burst"]["planned"]["last"], "s", 30.0),
    Row("burst: until all Deployments exist", lambda one: one["burst"]["deploymentsExist"], "s"),
    Row("burst: until all are Ready", lambda one: one["burst"]["ready"]["last"], "s"),
    Row("burst: writes per service, of the audit log", lambda one: one["burst"]["writesPerService"], ""),
    Row("burst: dry runs per service", lambda one: one["burst"]["dryRunsPerService"], ""),
    Row("burst: resident memory", lambda one: one["burst"]["mib"], "MiB"),
)

SCALED_ROWS: Final = (
    Row("start: until planners have nothing to do", lambda one: one["settled"]["planned"], "s"),
    Row("start: questions to planners", lambda one: one["settled"]["answers"], ""),
    Row("rest: looks under noise", lambda one: one["rest"]["looksPerMinute"], "/min"),
    Row("rest: time of a look", lambda one: 1000 * one["rest"]["lookSeconds"], "ms"),
    Row("rest: changes of a plan", lambda one: one["rest"]["decisions"], ""),
    Row("loop: median answer", lambda one: 1000 * one["stalls"]["median"], "ms"),
    Row("loop: 99th percentile", lambda one: 1000 * one["stalls"]["p99"], "ms"),
    Row("loop: longest answer", lambda one: 1000 * one["stalls"]["longest"], "ms"),
    Row("Prometheus: requests", lambda one: one["requests"]["perMinute"], "/min"),
    Row("Prometheus: requests of five polls", lambda one: one["requests"]["queries"], ""),
    Row(
        "Prometheus: requests of a poll, to those with a tenth of the services, 1 is as many",
        lambda one: _of_a_poll(one["requests"]) / _of_a_poll(one["tenth"]),
        "",
        1.01,
    ),
    Row("Prometheus: requests of five polls, three windows", lambda one: one["windows"]["queries"], ""),
    Row("Prometheus: bytes", lambda one: one["requests"]["mebibytesPerMinute"], "MiB/min"),
    Row("Prometheus: bytes, three windows", lambda one: one["windows"]["mebibytesPerMinute"], "MiB/min"),
    Row("Prometheus: bytes, a tenth of the services", lambda one: one["tenth"]["mebibytesPerMinute"], "MiB/min"),
    Row("Prometheus: time of a poll", lambda one: one["requests"]["pollSeconds"], "s"),
    Row("Prometheus: time of a poll, three windows", lambda one: one["windows"]["pollSeconds"], "s"),
    Row("load: until a Deployment grows, median", lambda one: middle_of(one["doubled"]["seconds"]), "s"),
    Row("load: until a Deployment grows, worst", lambda one: worst_of(one["doubled"]["seconds"]), "s"),
    Row("cut: until it is obeyed, median", lambda one: middle_of(one["cut"]["seconds"]), "s"),
    Row("cut: until it is obeyed, worst", lambda one: worst_of(one["cut"]["seconds"]), "s", 120.0),
)


def _of_a_poll(found: Json) -> int:
    """Requests of a poll. In the time of five, the one for mixes, which is made each minute, is made once or twice."""
    return round(float(found["queries"]) / float(found["polls"]))


def command(size: str) -> str:
    """Measures a size."""
    flags = SIZES[size][1]
    quoted = f'"{flags}"' if " " in flags else flags
    return f"make bench-operator FLAGS={quoted}"


def middle_of(seconds: Sequence[float | None]) -> float | None:
    """Median, where None is longer than every number; None if it is one of those."""
    ordered = sorted(seconds, key=_or_endless)
    return ordered[len(ordered) // 2] if ordered else None


def worst_of(seconds: Sequence[float | None]) -> float | None:
    """The longest; None if a limit came first."""
    return max(seconds, key=_or_endless, default=None)


def figure(value: float) -> str:
    """Three significant digits, whole numbers whole."""
    return f"{value:.0f}" if value == round(value) or value >= 100 else f"{value:.3g}"


def describe(size: str, data: Json) -> str:
    """Markdown of one size: what is there, the table, what the set-up took, the operators measured."""
    cases: Mapping[str, Json] = data["cases"]
    objects = data["setUp"]["objects"]
    lines = [
        f"## {SIZES[size][0]}\n",
        f"{objects['services']:,} services, {objects['profiles']:,} profiles, {objects['nodes']:,} nodes, "
        f"{objects['pods']:,} pods ({objects['foreignPods']:,} of other owners); "
        f"{data['burst']:,} services in the burst.\n",
    ]
    full, shown = "quick" not in size, ROWS + (SCALED_ROWS if size.startswith("scaled") else ())
    head = ["figure", "goal" if full else "goal of the full size", *cases]
    rows = [[row.words, row.goal, *(row.cell(case["rounds"], judged=full) for case in cases.values())] for row in shown]
    lines.append(table(head, rows))
    for name, case in cases.items():
        written = _kinds(case["rounds"][-1]["burst"]["audited"], data["burst"])
        lines.append(
            f"- *{name}*: commit `{case['commit']}`, {case['when']}, {len(case['rounds'])} round(s). {written}"
            + _pace(case["rounds"])
        )
    took = sum(data["setUp"]["seconds"].values())
    steps = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in data["setUp"]["seconds"].items())
    settled = data["setUp"].get("settled")
    words = f" Its planners gave {settled['answers']:.0f} answers, {_until(settled['planned'])}." if settled else ""
    lines.append(f"\nSet-up of the last run: {took:.0f} s ({steps}).{words}\n")
    return "\n".join(lines)


def _pace(rounds: Rounds) -> str:
    """How fast the machine was; nothing for rounds of before that was measured."""
    found = [one["pace"]["seconds"] for one in rounds if "pace" in one]
    if not found:
        return ""
    return f" Before the burst the machine took {1000 * statistics.median(found):.0f} ms for a fixed loop of Python."


def keep(size: str, about: Json, data: Json) -> None:
    """Keep a measurement; operators of other names that are kept already stay."""
    found = KEPT.load(size)
    known = found[1]["cases"] if found else {}
    KEPT.save(size, about, data | {"cases": {**known, **data["cases"]}})


def write_report() -> Path:
    """Write the page from what is kept."""
    texts = [_HEAD]
    for size in SIZES:
        found = KEPT.load(size)
        if found is None:
            texts.append(f"## {SIZES[size][0]}\n\nNot measured yet: `{command(size)}`.\n")
        else:
            about, data = found
            texts += [describe(size, data), f"*`{about['command']}`; {about['machine']}.*\n"]
    KEPT.page.write_text("\n".join(texts), encoding="utf-8")
    return KEPT.page


def _until(idle: float | None) -> str:
    return "and had more to do when they were stopped" if idle is None else f"the last {idle:.0f} s after its start"


def _or_endless(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds


def _kinds(audited: Mapping[str, int], services: int) -> str:
    """Writes of a burst by kind, per service."""
    kinds = ", ".join(f"{kind} {figure(count / services)}" for kind, count in audited.items())
    return f"Writes of the burst, per service: {kinds or 'none'}."
