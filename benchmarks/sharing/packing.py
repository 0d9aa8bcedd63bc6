"""Few instances on few GPUs: how many placement needs, the fewest under the rule, and the fewest that hold."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.reporting import Json
from benchmarks.sharing.tenants import PERCENTILE, SEED, Tenant, met
from benchmarks.sharing.terms import NAMESPACE, as_tenants, drawn, fewest, members
from benchmarks.sharing.ways import POLICIES

from hetserve.base.units import MiB, Seconds
from hetserve.objects import gpu_sharing
from hetserve.objects.gpu_sharing import ONE, SharingTerms, tolerate
from hetserve.objects.resources import WHOLE_COMPUTE
from hetserve.placement.decision.decide import decide
from hetserve.placement.ledger.inventory import Gpu, NodeInventory
from hetserve.placement.ledger.ledger import Ledger
from hetserve.placement.pods.requests import GpuRequest, PolicyName

GPUS: Final = 4
MOST: Final = 8
_MIB: Final = 15_360
_BUSY: Final = (0.05, 0.75)
_MARGIN: Final = 1.1


@dataclass(frozen=True, slots=True)
class Piece:
    """An instance: its model, terms and memory [MiB]. busy: what it would be at times x its tolerance."""

    model: str
    terms: SharingTerms
    mib: int
    busy: float

    @property
    def request(self) -> GpuRequest:
        return GpuRequest("", NAMESPACE, "", MiB(self.mib), self.model, compute=WHOLE_COMPUTE, sharing=self.terms)

    @property
    def tenant(self) -> gpu_sharing.Tenant:
        return gpu_sharing.Tenant(NAMESPACE, self.model, self.terms)

    @property
    def slowed(self) -> float:
        return self.terms.tolerance / ONE

    @property
    def load(self) -> float:
        """Of what it serves alone."""
        return self.busy / self.slowed


def packed(number: int) -> Json:
    """GPUs for the set of this number, in every sense."""
    pieces = drawn_pieces(number)
    count = len(pieces)
    apart = [len({pieces[k].model for k in members(gpu)}) == gpu.bit_count() for gpu in range(1 << count)]
    by_rule = [apart[gpu] and _fits([pieces[k] for k in members(gpu)]) for gpu in range(1 << count)]
    return {
        "instances": count,
        "rule": len(fewest(count, by_rule)),
        "play": len(fewest(count, _by_play(pieces, apart))),
        "needs": {policy: needs(pieces, policy) for policy in POLICIES},
        "used": {policy: used(pieces, policy, GPUS) for policy in POLICIES},
    }


def drawn_pieces(number: int) -> list[Piece]:
    """3 to 8 instances that the rule fits on 4 GPUs; equal numbers give equal sets."""
    rng = random.Random(f"packing {number}")  # noqa: S311
    while True:
        pieces = _drawn(rng)
        ways = [_fits([pieces[k] for k in members(gpu)]) for gpu in range(1 << len(pieces))]
        if len(fewest(len(pieces), ways)) <= GPUS:
            return pieces


def _drawn(rng: random.Random) -> list[Piece]:
    """One in four is a second instance of a model that is there."""
    pieces: list[Piece] = []
    names = [f"m{k}" for k in range(rng.randint(3, MOST))]
    for name in names:
        if pieces and rng.random() < 1 / 4:
            pieces.append(replace(rng.choice(pieces), busy=rng.uniform(*_BUSY)))
            continue
        tolerance = round(rng.uniform(1.25, 4.0), 3)
        added = (tolerance - 1) * rng.random() ** 2
        terms = drawn(
            rng, [other for other in names if other != name], round(0.15 ** rng.random(), 3), tolerance, added
        )
        pieces.append(Piece(name, terms, 1024 * rng.randint(1, 6), rng.uniform(*_BUSY)))
    return pieces


def _fits(pieces: Sequence[Piece]) -> bool:
    """Whether one GPU takes them: memory, tolerances, and no model twice."""
    return (
        sum(piece.mib for piece in pieces) <= _MIB
        and len({piece.model for piece in pieces}) == len(pieces)
        and tolerate([piece.tenant for piece in pieces])
    )


def needs(pieces: Sequence[Piece], policy: PolicyName) -> int:
    """GPUs of the smallest cluster on which placement finds room for all, as they come."""
    return next(gpus for gpus in range(1, len(pieces) + 1) if used(pieces, policy, gpus) is not None)


def used(pieces: Sequence[Piece], policy: PolicyName, gpus: int) -> int | None:
    """GPUs in use once all are placed on a cluster of so many; None if one finds no room."""
    ledger = Ledger()
    ledger.relist_nodes([NodeInventory("n", "n", tuple(Gpu(str(k), "T4", MiB(_MIB)) for k in range(gpus)))])
    for k, piece in enumerate(pieces):
        request = replace(piece.request, uid=f"u{k}", name=f"p{k}")
        chosen = decide(ledger.index, request, ["n"], policy=policy).chosen
        if chosen is None:
            return None
        ledger.reserve(request, chosen.places, Seconds(math.inf))
    return int((~ledger.index.idle).sum())


def _by_play(pieces: Sequence[Piece], apart: Sequence[bool]) -> list[bool]:
    """By set of instances on one GPU: whether memory suffices and all hold their SLOs beside each other.

    A set with a part that breaks is not tried: another neighbour speeds nobody up.
    """
    given = [_with_slo(one, piece) for one, piece in zip(as_tenants([p.tenant for p in pieces]), pieces, strict=True)]
    good = [True] * len(apart)
    for gpu in range(1, len(good)):
        who = members(gpu)
        if len(who) > 1:
            parts = all(good[gpu & ~(1 << k)] for k in who)
            fits = apart[gpu] and sum(pieces[k].mib for k in who) <= _MIB
            good[gpu] = parts and fits and _holds([given[k] for k in who], [pieces[k].load for k in who])
    return good


def _with_slo(tenant: Tenant, piece: Piece) -> Tenant:
    """What it would hold alone with service times x its tolerance, and a tenth more."""
    alone = met([tenant], [piece.load], 20_000, SEED, slowed=piece.slowed)[0]
    return replace(tenant, slo=_MARGIN * alone.latencies[PERCENTILE])


def _holds(some: list[Tenant], loads: list[float]) -> bool:
    reports = [report for seed in (1, 2) for report in met(some, loads, 2_000, seed)]
    return all(report.in_time(PERCENTILE) and not report.unstable for report in reports)
