"""What services really do: their profiles times hidden factors, beside what the dispatch policy predicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Seconds
from hetserve.dispatch import LatencyModel, make_policy
from hetserve.profiles import DenseLatency, LatencyProfile, dense, profile_from_spec
from hetserve.profiles.latency_factors import factor_of
from hetserve.profiles.sharing import compute_share
from hetserve.serving.services import Neighbour, Service, compute_use
from hetserve.serving.system import FEASIBILITY_PERCENTILE, System
from hetserve_services.facts import Key, ServiceFacts


@dataclass(slots=True)
class Truth:
    """How long queries of one service really take: by type, the profile as first seen, and its hidden factor.

    A later edit of a profile changes what is predicted, not how long serving takes, unless the service serves another
    model. Types and batch sizes only grow.
    """

    factors: Mapping[str, float]
    profiles: dict[str, LatencyProfile] = field(default_factory=dict)
    declared: dict[str, LatencyProfile] = field(default_factory=dict)
    uses: dict[str, ModelProfile] = field(default_factory=dict)
    batches: tuple[int, ...] = ()
    model: str = ""

    def learn(self, facts: ServiceFacts) -> None:
        """Takes over what is new in the declared service."""
        is_new = facts.model != self.model
        for kind in sorted(facts.profiles):
            found = profile_from_spec(facts.profiles[kind].spec)
            self.declared[kind], self.uses[kind] = found, facts.profiles[kind]
            if is_new or kind not in self.profiles:
                self.profiles[kind] = found
        self.model = facts.model
        self.batches = tuple(sorted({*self.batches, *facts.mix.batches}))

    def system(self, slo: Seconds) -> System:
        """Real service times, and the declared ones as predicted."""
        kinds = list(self.profiles)
        real, declared = (dense([of[kind] for kind in kinds], self.batches) for of in (self.profiles, self.declared))
        model = LatencyModel.of(kinds, self.batches, declared.means, slo, declared.quantiles(FEASIBILITY_PERCENTILE))
        return System(self._served(kinds, real, declared), model)

    def _served(self, kinds: list[str], real: DenseLatency, declared: DenseLatency) -> DenseLatency:
        """Where the first profile did not go as far as the present one, the present one says what is true."""
        factors = np.array([factor_of(self.factors, kind) for kind in kinds])[:, None]
        means = np.where(np.isfinite(real.means), real.means, declared.means) * factors
        return DenseLatency(real.batches, means, real.probabilities, real.ratios)


def shared_services(known: Mapping[Key, tuple[ServiceFacts, System, Truth]], policy: str) -> list[Service]:
    """The services of a joint run, in this order. policy: of services that declare none."""
    neighbours = {
        key: Neighbour(facts.title, facts.namespace, facts.model, facts.mix.largest)
        for key, (facts, _, _) in known.items()
    }
    return [
        Service(
            facts.title,
            system,
            make_policy(facts.policy or policy),
            {
                kind: compute_use(compute_share(profile.spec), neighbours[key], neighbours.values())
                for kind, profile in truth.uses.items()
            },
            {kind: most for kind, most in facts.slowdowns.items() if kind in truth.profiles},
        )
        for key, (facts, system, truth) in known.items()
    ]
