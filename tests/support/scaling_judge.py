"""What must be true of a service that follows its load, at each write and each stage, by figures of its own.

Reads the raw objects of the API server and the story's true load. Shares no arithmetic with the operator.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any, Final

from hetserve.api import names
from hetserve.demand.observed import Freshness
from kstatus import ONE_OF, kstatus, the_one_that_is_true
from scaling_picture import Json, Picture, owner_of, rate, summary, told
from scaling_story import DOWN, KINDS, POLL, PRICES, ROOM, SERVICE, Story

SATURATION, TOLERANCE = 0.8, 0.1
WAITS: Final = 140.0
"""Seconds for which a decision may stay with the demand of before, and a write be under way."""
GRACE: Final = 4
"""Looks in which a budget is obeyed: one may fail, and repairs of one Deployment are 5 s apart."""


class Judge:
    """Looks before and after every write, and after every stage of the cluster."""

    def __init__(self, story: Story) -> None:
        self.story = story
        self.prices = dict(PRICES)
        self.plans = self.writes = self.missed = 0
        """Changes of the plan, writes to Deployments, and changes for late queries, so far."""
        self._over = 0
        self._most_missed = 0.0
        """The largest load at which queries were late, in queries/s."""
        self._late_grown = -1e9
        """When instances were added last since queries were late, in seconds of the story."""
        self._mixed = -1e9
        """When the mix that the plan is for changed last, in seconds of the story."""
        self._steady: set[str] | None = None
        self._before = self.picture()
        self._staged = self._before
        story.api.before.append(self._look)
        story.api.after.append(self._judge)

    # What is there

    def picture(self) -> Picture:
        objects = self.story.api.objects
        replicas, live, placed, ready, gone, left = (Counter[str]() for _ in range(6))
        owners = {raw["metadata"]["uid"]: owner_of(raw) for raw in objects.values()}
        for path, raw in objects.items():
            meta = raw["metadata"]
            labels = meta.get("labels") or {}
            if "/instancetypes/" in path and meta["name"] in KINDS:
                self.prices[meta["name"]] = round(float(raw["spec"]["price"]["hourly"]) * 1e6)
            if labels.get(names.LABEL_SERVICE) != "rm2":
                continue
            kind = labels.get(names.LABEL_INSTANCE_TYPE, "")
            if "/deployments/" in path:
                replicas[kind] += raw["spec"]["replicas"]
            elif "/pods/" in path and "deletionTimestamp" in meta:
                gone[kind] += 1
            elif "/pods/" in path:
                live[kind] += 1
                placed[kind] += bool(raw["spec"].get("nodeName"))
                serves = any(
                    c["type"] == "Ready" and c["status"] == "True" for c in raw["status"].get("conditions") or ()
                )
                ready[kind] += serves
                left[kind] += serves and owners.get(owner_of(raw)) not in owners
        service = objects[SERVICE]
        status = service.get("status") or {}
        plan = Counter({row["instanceType"]: row["count"] for row in (status.get("plan") or {}).get("counts", ())})
        declared = frozenset(kind for kind in KINDS if self.story.type_path(kind) in objects)
        shown = (replicas, live, placed, ready, gone, left, +plan)
        return Picture(*shown, status, service["spec"], dict(self.prices), declared)

    # Each write

    def _look(self, _method: str, _path: str, query: Any) -> None:
        if not query.get("dryRun"):
            self._before = self.picture()

    def _judge(self, method: str, path: str, query: Any) -> None:
        if query.get("dryRun"):
            return
        before, after = self._before, self.picture()
        late = self.story.line is not None and self.story.line.wire.landing
        if "/deployments" in path and before.replicas != after.replicas:
            self.writes += 1
            self.no_write_spends_more_than_the_budget(before, after)
            if not late:
                self.every_write_follows_the_record(before, after)
                self.no_capacity_goes_before_its_successor(before, after)
        if path == f"{SERVICE}/status":
            self.one_condition_is_true()
            if not late:
                self.ready_is_whether_the_load_is_carried(after)
                self.what_is_not_known_ends_no_limit(before, after)
            self.a_mix_counts_only_as_it_is_measured(before, after, late=late)
            self.every_change_of_plan_is_on_record(before, after, late=late)
        if "/deployments" in path and not late:
            assert not before.advises, f"I11: {method} {path} though only advice is asked for"

    def no_write_spends_more_than_the_budget(self, before: Picture, after: Picture) -> None:
        """I3: no write makes what lives, is asked for or terminates cost more than the budget.

        What cost more before, since the budget was cut, a price rose or somebody else scaled, may only become less.
        """
        ceiling = after.ceiling
        if ceiling is not None:
            assert after.paid <= max(ceiling, before.paid), f"I3: {after.paid} of {ceiling}, {before.paid} before"
        total = {kind: after.most(kind) for kind in KINDS}
        most = after.most_instances if not after.pauses("ScaleDown") else 10**6
        was = sum(before.most(kind) for kind in KINDS)
        assert sum(total.values()) <= max(most, was), f"I3: {total}, {most} instances are the most"

    def every_write_follows_the_record(self, before: Picture, after: Picture) -> None:
        """I8, I11: a write leads towards the plan that the status records; away from it only down to a limit."""
        over = self._is_over(before)
        for kind in KINDS:
            was, now, planned = before.replicas[kind], after.replicas[kind], before.plan[kind]
            assert now <= max(was, planned), f"I11: {was} -> {now} {kind}, and {planned} are recorded"
            assert now >= min(was, planned) or over, f"I11: {was} -> {now} {kind}, and {planned} are recorded"

    def no_capacity_goes_before_its_successor(self, before: Picture, after: Picture) -> None:
        """I9: what is ready and stays carries what the plan carries, or as much as was ready before.

        But where the limits are exceeded, or have no room for one successor beside what is there.
        """
        if all(after.replicas[kind] >= before.replicas[kind] for kind in KINDS):
            return
        was = rate({kind: min(before.ready[kind], before.replicas[kind]) for kind in KINDS})
        now = rate({kind: min(before.ready[kind], after.replicas[kind]) for kind in KINDS})
        if now >= min(was, rate(before.plan)) * (1 - 1e-6) or self._is_over(before):
            return
        assert self._lacks_room(before), f"I9: {was} -> {now} queries/s ready, and the plan holds {rate(before.plan)}"

    def _is_over(self, picture: Picture) -> bool:
        total = sum(max(picture.replicas[kind], picture.live[kind]) for kind in KINDS)
        ceiling = picture.ceiling
        return (ceiling is not None and picture.paid > ceiling) or total > picture.most_instances

    def _lacks_room(self, picture: Picture) -> bool:
        """Whether some planned instance finds no room beside all that is there."""
        missing = [kind for kind in KINDS if picture.placed[kind] < picture.plan[kind]]
        unknown = [kind for kind in KINDS if kind not in picture.declared and picture.most(kind)]
        total = sum(picture.most(kind) for kind in KINDS)
        ceiling = picture.ceiling
        return any(
            unknown
            or total + 1 > picture.most_instances
            or (ceiling is not None and picture.paid + picture.prices[kind] > ceiling)
            or picture.most(kind) >= ROOM[kind]
            for kind in missing
        )

    def one_condition_is_true(self) -> None:
        """I11: one of Ready, Reconciling and Stalled is True, and tools read the same."""
        raw = self.story.api.objects[SERVICE]
        if raw["status"]["observedGeneration"] == raw["metadata"]["generation"]:
            assert kstatus(raw) == ONE_OF[the_one_that_is_true(raw["status"])]

    def ready_is_whether_the_load_is_carried(self, now: Picture) -> None:
        """I11: with a load that is known, Ready is whether what is ready holds it, whatever of the plan is ready.

        By a rate that was told lately: a decision that waits for more instances stays with the one it asked for.
        Instances that are asked to go, or whose Deployment is gone, may count or not.
        """
        ready, held = now.condition("Ready"), now.holds(now.ready)
        stays = now.holds({kind: min(now.ready[kind] - now.left[kind], now.replicas[kind]) for kind in KINDS})
        lately = [qps for at, qps in self.story.load.rates if at >= self.story.clock - WAITS]
        if ready["reason"] == "LoadNotCarried":
            assert any(qps > stays * (1 - 1e-6) for qps in lately), f"I11: {stays} of {lately} queries/s: {ready}"
        followed = not (now.advises or self.story.planners.busy or now.exceeds(now.plan)) and now.is_enough(now.plan)
        known = followed and (now.status.get("demand") or {}).get("freshness") == "Fresh"
        if known and ready["status"] == "True":
            assert any(qps <= held * (1 + 1e-6) for qps in lately), f"I11: {held} of {lately} queries/s: {ready}"

    def what_is_not_known_ends_no_limit(self, before: Picture, after: Picture) -> None:
        """I11: that nothing limits the instances is found only by a load that is known."""
        was, now = before.condition("ScalingLimited"), after.condition("ScalingLimited")
        if now.get("reason") == "NotLimited" and was.get("reason") != "NotLimited":
            fresh = (after.status.get("demand") or {}).get("freshness")
            assert fresh == "Fresh", f"I11: {was.get('reason')} ends though the load is {fresh}"

    def a_mix_counts_only_as_it_is_measured(self, before: Picture, after: Picture, *, late: bool) -> None:
        """I5: the sizes that a plan is for become others only by a Fresh measurement, of queries enough to be sure.

        A decision that waits for more instances stays with the demand that it asked for.
        """
        if before.large == after.large or not after.plan:
            return
        self._mixed = self.story.clock
        load = self.story.load
        if late:
            return
        assert load.freshness is Freshness.FRESH, f"I5: the mix of what is {load.freshness}"
        assert after.large is not None, "I5: the mix in force is forgotten"
        told = [one for one in load.told if one[0] >= self.story.clock - WAITS and abs(one[1] - after.large) <= 1e-6]
        assert told, f"I5: {after.large} large queries were not measured"
        moved = abs((before.large or 0.0) - after.large)
        assert any(moved >= 0.05 + 2.6 / queries**0.5 for *_, queries in told), f"I5: by {moved} of few queries: {told}"

    # Each change of the plan

    def every_change_of_plan_is_on_record(self, before: Picture, after: Picture, *, late: bool) -> None:
        """I11: a plan changes only with an entry that says from what, to what and why.

        late: it was decided long before it lands, of a state that has changed.
        """
        if before.plan == after.plan:
            return
        self.plans += 1
        assert late or not after.advises, "I11: a plan is recorded though only advice is asked for"
        entries, known = after.status["lastDecisions"], before.status.get("lastDecisions") or []
        entry = entries[0]
        assert entries[1:] == known[: len(entries) - 1], "I11: an entry is lost"
        assert told(entry["to"]) == summary(after.plan) or not after.plan, f"I11: {entry} for {summary(after.plan)}"
        if known:
            assert told(entry["from"]) == summary(before.plan) or not before.plan, (
                f"I11: {entry} from {summary(before.plan)}"
            )
        if late:
            return
        if entry["reason"] == "SLOMissed":
            self.more_come_for_late_queries_only_where_there_are_some(entry)
        self.changes_do_what_they_say(entry, before, after)
        if any(after.plan[kind] < before.plan[kind] for kind in KINDS):
            self.nothing_shrinks_without_reason(entry, before, after)

    def changes_do_what_they_say(self, entry: Json, before: Picture, after: Picture) -> None:
        """I8: a scale-up takes nothing, a scale-down adds nothing, and pauses hold but for the budget."""
        fewer = [kind for kind in KINDS if after.plan[kind] < before.plan[kind]]
        more = [kind for kind in KINDS if after.plan[kind] > before.plan[kind]]
        action, reason = entry["action"], entry["reason"]
        assert not (action == "ScaleUp" and fewer), f"I9: a scale-up swaps {fewer}: {entry}"
        assert not (action == "ScaleDown" and more), f"I8: a scale-down adds {more}: {entry}"
        if reason == "BudgetCut" or action == "FirstPlan":
            return
        assert not (fewer and not more and after.pauses("ScaleDown")), f"I8: {entry} while paused"
        assert not (more and not fewer and after.pauses("ScaleUp")), f"I8: {entry} while paused"
        budget = after.budget
        assert budget is None or after.cost(after.plan) <= max(budget, before.cost(before.plan)), f"I3: {entry}"

    def more_come_for_late_queries_only_where_there_are_some(self, entry: Json) -> None:
        """I8: instances that come as queries are late, and queries that are late, go together.

        A decision that waits for more instances stays with the demand that it asked for.
        """
        self.missed += 1
        self._late_grown = self.story.clock
        self._most_missed = max(self._most_missed, float(entry["load"]))
        lately = [share for at, share in self.story.load.shares if at >= self.story.clock - WAITS]
        assert any(share < 1 for share in lately), f"I8: none of the queries was late: {entry}"

    def nothing_shrinks_without_reason(self, entry: Json, before: Picture, after: Picture) -> None:
        """I5, I9: fewer instances only for a limit, for a type without room, or for a load that is surely lower.

        Surely: what is measured is fresh, and the largest load of the window is carried by what stays.
        """
        if entry["action"] == "FirstPlan" or after.exceeds(before.plan):
            return
        if entry["reason"] == "TypeScarce":
            for kind in KINDS:
                kept = min(before.plan[kind], before.placed[kind])
                assert after.plan[kind] >= kept, f"I5: {kind} has places: {entry}"
            return
        load, now = self.story.load, self.story.clock
        assert load.freshness is Freshness.FRESH, f"I5: the load is {load.freshness}: {entry}"
        assert now - load.since >= 0.75 * DOWN, f"I5: measured for {now - load.since:g} s: {entry}"
        largest = load.highest(now, DOWN)
        assert after.holds(after.plan) * SATURATION >= largest * (1 - 1e-6), f"I9: {largest:.1f} queries/s: {entry}"
        newest = [share for at, share in load.shares if at >= max(now - POLL, load.since)]
        assert not newest or newest[-1] == 1.0, f"I5: queries are late: {entry}"
        assert now - self._late_grown >= DOWN - POLL, f"I5: late queries brought instances just before: {entry}"
        assert now - self._mixed >= DOWN - POLL, f"I5: the mix moved {now - self._mixed:g} s ago: {entry}"
        assert sum(after.plan.values()) >= after.least_instances, f"I5: below the minimum: {entry}"

    # Each stage of the cluster, and rest

    def stage(self, *, clean: bool) -> None:
        """After a round. clean: nothing went wrong in it but what the cluster does."""
        before, now = self._staged, self.picture()
        self._staged = now
        self.a_budget_is_obeyed_in_time(now, clean=clean)
        self.others_are_left_alone()
        if now.ceiling is not None and before.prices == now.prices and before.spec == now.spec:
            assert now.paid <= max(now.ceiling, before.paid), "I3: what exists costs more than before"

    def a_budget_is_obeyed_in_time(self, now: Picture, *, clean: bool) -> None:
        """I3: what is asked for costs no more than the budget after a few looks, whatever else fails."""
        known = sum(now.replicas[kind] * now.prices[kind] for kind in KINDS if kind in now.declared)
        shrinks = now.budget is not None and now.spec["budget"].get("whenTooLow", "Shrink") == "Shrink"
        over = shrinks and not now.advises and known > (now.budget or 0)
        self._over = self._over + clean if over else 0
        assert self._over <= GRACE, f"I3: {known} micro-dollars are asked for, {now.budget} allowed"

    def others_are_left_alone(self) -> None:
        """I12: the other service keeps its instances, whatever happens to this one."""
        mine = {
            pod["metadata"]["uid"]
            for path, pod in self.story.api.objects.items()
            if "/pods/" in path and (pod["metadata"].get("labels") or {}).get(names.LABEL_SERVICE) == "other"
        }
        if self._steady is None and len(mine) == 2:
            self._steady = mine
        assert self._steady is None or mine == self._steady, "I12: an instance of another service was touched"

    def rest(self) -> None:
        """I6, I11: what is declared and measured is reached, and the status says so; or says what is out of reach."""
        now, load = self.picture(), self.story.load.highest(self.story.clock, DOWN)
        conditions = {c["type"]: c for c in now.status["conditions"]}
        generation = self.story.api.objects[SERVICE]["metadata"]["generation"]
        assert now.status["observedGeneration"] == generation, "I11: of an earlier generation"
        assert (+Counter(now.replicas), +Counter(now.ready)) == (now.plan, now.plan), "I6: the plan is not reached"
        assert not any(now.gone.values())
        assert now.ceiling is None or now.paid <= now.ceiling, "I3: too dear at rest"
        within = now.budget is None or now.paid <= now.budget
        assert conditions["WithinBudget"]["status"] == str(within), conditions["WithinBudget"]
        carried = now.holds(now.plan) * SATURATION * (1 + TOLERANCE) >= load * (1 - 1e-6)
        reach = self.reach(now)
        self.the_mix_is_that_which_is_measured(now)
        is_ready = conditions["Ready"]["status"] == "True"
        assert carried or rate(now.plan) >= reach * (1 - 1e-6), f"I6: {summary(now.plan)}, and {reach} are in reach"
        assert conditions["MetricsAvailable"]["status"] == "True", conditions["MetricsAvailable"]
        # What the user keeps above the budget carries the load, and is no plan that there could be.
        kept = now.exceeds(now.plan)
        assert not kept or now.keeps, f"I6: {summary(now.plan)} breaks what is declared"
        said = self.late_queries_say(now, load) if carried and not kept else {"False"}
        assert conditions["Feasible"]["status"] in said, conditions["Feasible"]
        assert conditions["Ready"]["status"] == conditions["Feasible"]["status"], conditions["Ready"]
        newest = self.story.load.at(POLL * (self.story.clock // POLL))
        assert not is_ready or newest <= now.holds(now.ready) * (1 + 1e-6), f"I11: {newest}: {conditions['Ready']}"
        self.late_queries_bring_instances(now, load, reach)
        self.nothing_is_left_over(now, load)
        broken = self.story.service("broken")["status"]
        assert broken["reason"] == "SpecInvalid", "I12: the broken service does not say why"

    def the_mix_is_that_which_is_measured(self, now: Picture) -> None:
        """I6: where many queries tell another mix, the plan is for it."""
        seen, load = self.story.load.large(self.story.clock), self.story.load
        if seen is not None and load.queries > 10_000:
            assert abs((now.large or 0.0) - seen) <= 0.08, f"I6: {now.large} in force, {seen} measured"

    def late_queries_bring_instances(self, now: Picture, load: float, reach: float) -> None:
        """I6: queries are late at rest only if no more instances are within reach, or twice what the load needs runs.

        Or if what is in force breaks what is declared, which the user keeps.
        """
        if self.story.carries(now.ready) or now.exceeds(now.plan):
            return
        enough = now.holds(now.plan) >= 2 * load / SATURATION * (1 - 1e-6)
        assert enough or rate(now.plan) >= reach * (1 - 1e-6), (
            f"I6: {summary(now.plan)} of {reach}, and queries are late"
        )

    def late_queries_say(self, now: Picture, load: float) -> set[str]:
        """I11: of a plan that carries the load by profiles: late is infeasible, unless twice what it needs runs."""
        late = {share < 1 for at, share in self.story.load.shares if at >= self.story.clock - DOWN}
        if self.story.truth is None or late == {False}:
            return {"True"}
        few = now.holds(now.plan) < 2 * load / SATURATION * (1 - TOLERANCE)
        return {"False"} if few and late == {True} else {"True", "False"}

    def nothing_is_left_over(self, now: Picture, load: float) -> None:
        """I6: no instance could go, unless the user keeps what is above the budget."""
        if now.exceeds(now.plan):
            return
        needed = load * (1 + TOLERANCE) / SATURATION
        if self.missed:
            # What holds no more than what missed the SLO is not gone back to, and that held at most twice the load.
            needed = max(needed, 2 * self._most_missed / SATURATION * (1 + TOLERANCE))
        for kind in KINDS:
            fewer = Counter(now.plan) - Counter({kind: 1})
            if now.plan[kind] and sum(now.plan.values()) > now.least_instances:
                assert now.holds(fewer) < needed * (1 + 1e-6), f"I6: {summary(fewer)} would do for {load:.1f} queries/s"

    def reach(self, now: Picture) -> float:
        """The most queries/s that types, GPUs, budget and the number of instances allow beside what is planned.

        A scale-up never swaps, so what is planned stays.
        """
        kinds = sorted(now.allowed)
        options = itertools.product(*(range(now.plan[kind], ROOM[kind] + 1) for kind in kinds))
        counts = (dict(zip(kinds, option, strict=True)) for option in options)
        return max((rate(one) for one in counts if not now.exceeds(one)), default=0.0)
