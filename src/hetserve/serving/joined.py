"""Queries that are joined: one instance serves them together, by one variant."""

from __future__ import annotations

from hetserve.compiled import njit_inner
from hetserve.dispatch.joining.arrays import FleetArrays, JoiningArguments, RecentArrivals, VariantArrays
from hetserve.serving.progress import count_late, log_end, set_going, set_idle, work_of
from hetserve.serving.state import DROPPED, EngineState


@njit_inner
def desk_of(service: int, state: EngineState) -> tuple[FleetArrays, JoiningArguments]:
    """What a joining policy is asked with."""
    tables, joining, instances = state.tables, state.tables.joining, state.instances
    first, last = state.slots[service], state.slots[service + 1]
    kind, end_kind, variants = tables.kinds[service], tables.kinds[service + 1], joining.variants[service]
    model = VariantArrays(
        tables.mean[kind:end_kind],
        joining.accuracies[kind : kind + variants],
        joining.utilities[kind : kind + variants],
        joining.switches[kind:end_kind],
        variants,
        tables.slo[service],
        joining.graces[service],
    )
    workers = FleetArrays(
        instances.type[first:last],
        instances.variant[first:last],
        instances.busy[first:last],
        instances.free_at[first:last],
    )
    asking = JoiningArguments(
        model,
        joining.rules[service],
        joining.drops[service],
        tables.parameters[service],
        recent_of(service, state),
        state.scratch,
        state.answer,
    )
    return workers, asking


@njit_inner
def recent_of(service: int, state: EngineState) -> RecentArrivals:
    course = state.course
    return RecentArrivals(
        course.recent[service], course.newest[service : service + 1], state.tables.joining.widths[service]
    )


@njit_inner
def apply_joined(now: float, service: int, joined: int, dropped: int, state: EngineState) -> int:
    """Carries out an answer (`hetserve.dispatch.joining.kernel`): joins or drops the first queries; 0."""
    waiting = state.waiting
    head = waiting.ends[service, 0]
    for k in range(head, head + dropped):
        query = waiting.ids[k]
        state.queries.instance[query] = DROPPED
        count_late(query, state)
        log_end(now, query, state)
    if joined > 0:
        _begin_joined(now, head, joined, service, state)
    waiting.ends[service, 0] = head + joined + dropped
    return 0


@njit_inner
def _begin_joined(now: float, head: int, joined: int, service: int, state: EngineState) -> None:
    """The idle instance of the answer begins to serve the queries at head, head + 1, ... together, by its variant."""
    tables, queries, instances, ids = state.tables, state.queries, state.instances, state.waiting.ids
    variant, slot, items = state.answer.pairs[0, 0], state.slots[service] + state.answer.pairs[0, 1], 0
    for k in range(head, head + joined):
        items += queries.size[ids[k]] + 1
    kind = tables.kinds[service] + instances.type[slot] * tables.joining.variants[service] + variant
    switch = tables.joining.switches[kind] if instances.variant[slot] not in (-1, variant) else 0.0
    work = switch + work_of(queries.draw[ids[head]], service, kind, items - 1, state)
    instances.kind[slot], instances.variant[slot] = kind, variant
    instances.free_at[slot] = now + switch + tables.mean[kind, items - 1]
    for k in range(head, head + joined):
        query = ids[k]
        queries.start[query], queries.work[query] = now, work
        queries.instance[query], queries.variant[query], queries.joined[query] = instances.id[slot], variant, items
        queries.next_in_line[query] = ids[k + 1] if k + 1 < head + joined else -1
    instances.query[slot], instances.batch[slot] = ids[head], items
    set_going(now, work, slot, state)


@njit_inner
def complete_joined(now: float, slot: int, state: EngineState) -> None:
    """Ends all that an instance serves; it is idle then."""
    queries, instances = state.queries, state.instances
    query = instances.query[slot]
    peak = queries.peak[query]
    if now > instances.since[slot]:
        peak = max(peak, instances.stretch[slot])
    while query >= 0:
        queries.finish[query], queries.peak[query] = now, peak
        if now > queries.deadline[query]:
            count_late(query, state)
        log_end(now, query, state)
        query = queries.next_in_line[query]
    set_idle(slot, state)
