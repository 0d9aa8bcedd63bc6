"""What `hetserve profile learned` does: profiles of the times that a service's router has seen."""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from functools import partial
from typing import Final

import click

from hetserve.api.model_profile import ModelProfile
from hetserve.base.units import Seconds
from hetserve.cli.cluster.client import ClusterClient, ClusterError
from hetserve.cli.cluster.extender import reader_token_of, system_namespace
from hetserve.cli.cluster.routers import Json, shown_by_leaders, shown_by_router
from hetserve.cli.output import streams
from hetserve.cli.output.streams import dump, refuse
from hetserve.cli.output.terminal import text_of
from hetserve.cli.profiles.profile_report import fit_block
from hetserve.profiles import LinearProfile, profile_from_spec
from hetserve.profiles.fit import Fit, fit_samples
from hetserve.profiles.measurements import Samples
from hetserve.profiles.spec import latency_of
from hetserve.registry.choices import FitKind

LEAST_BATCHES: Final = 3
LARGEST: Final = 1024
"""Up to which a router believes a profile without a limit [items]."""
_PATH: Final = "/times"


@dataclass(frozen=True, slots=True)
class LearnedProfile:
    """manifest: the profile in force with the latency of the fit.

    ratio, beyond: medians of the times over that profile's, of all and of the largest batches.
    """

    manifest: Json
    seen: Samples
    fit: Fit
    ratio: float
    beyond: float

    @property
    def title(self) -> str:
        return f"{self.manifest['spec']['model']} on {self.manifest['spec']['instanceType']}"


def run(  # noqa: PLR0917  options arrive by name
    service: str,
    namespace: str | None,
    instance_types: tuple[str, ...],
    url: str | None,
    kind: FitKind,
    keep_wild: bool,
    output: str,
    system: str | None,
    **kubeconfig: str | None,
) -> None:
    """The command, with its options. Raises ClusterError."""
    if url is None:
        cluster = ClusterClient.connect(**kubeconfig)
        lines = shown_by_leaders(cluster, system_namespace(cluster, system), _PATH)
        key = (namespace or cluster.namespace, service)
    else:
        lines = shown_by_router(url, _PATH, partial(reader_token_of, None, system, **kubeconfig))
        key = (namespace or "default", service)
    types = [one for one in _types(lines, key) if not instance_types or _type(one) in instance_types]
    errors = list(filter(None, map(_unfit, types)))
    learned = [_learned(one, kind, keep_wild=keep_wild) for one in types if not _unfit(one)]
    if not learned:
        missing = ", ".join(instance_types) or "any type"
        refuse(*errors or [f"{'/'.join(key)}: no query was answered on {missing} since its router leads"])
    for note in (*errors, *(f"{one.title}: {note}" for one in learned for note in one.fit.notes)):
        streams.note(note)
    click.echo(_text(learned, output), nl=False)


def _types(lines: list[Json], key: tuple[str, str]) -> list[Json]:
    """What was seen of a service, by type. Raises ClusterError."""
    for line in lines:
        if (line.get("namespace"), line.get("service")) == key:
            return list(line["types"])
    there = ", ".join(sorted(f"{line.get('namespace')}/{line.get('service')}" for line in lines))
    raise ClusterError(f"no router serves {'/'.join(key)}; served are: {there or 'none'} (-n names another namespace)")


def _type(seen: Json) -> str:
    return str(seen["profile"]["spec"]["instanceType"])


def _unfit(seen: Json) -> str:
    """Why no profile is made of what was seen of a type; empty: one is."""
    title, number = f"{seen['profile']['spec']['model']} on {_type(seen)}", len(_seen(seen)[1])
    if seen["isShared"]:
        return f"{title}: its instances share GPUs, and the times do not tell what neighbours cost"
    if "variants" in seen["profile"]["spec"]:
        return f"{title}: its profile has variants, and instances serve the most accurate alone: measure the others too"
    if number < LEAST_BATCHES:
        return f"{title}: queries of {number} sizes were answered, {LEAST_BATCHES} are needed; let more come"
    return ""


def _seen(seen: Json) -> tuple[dict[int, Seconds], dict[int, tuple[float, ...]]]:
    """By batch, rising: means of the profile in force where it says something of its own, and times that were seen."""
    before = profile_from_spec(ModelProfile.model_validate(seen["profile"]).spec)
    own = (before.max_batch or LARGEST,) if isinstance(before, LinearProfile) else before.batches
    times = {int(batch): tuple(map(float, each)) for batch, each in seen["times"].items()}
    means = {batch: mean for batch in sorted({*own, *times}) if (mean := before.mean(batch)) is not None}
    return means, {batch: times[batch] for batch in means if batch in times}


def _learned(seen: Json, kind: FitKind, *, keep_wild: bool) -> LearnedProfile:
    """Beyond the largest batch that was seen the profile in force counts, times the ratio at the largest ones."""
    means, times = _seen(seen)
    ratios = [[each / means[batch] for each in own] for batch, own in times.items()]
    beyond = statistics.median(itertools.chain(*ratios[-LEAST_BATCHES:]))
    unseen = {batch: (mean * beyond,) for batch, mean in means.items() if batch > max(times)}
    fit = fit_samples(Samples(_PATH, {**times, **unseen}), kind, keep_wild=keep_wild)
    samples = Samples(_PATH, times)
    source = f"{samples.count} queries at {len(times)} batches up to {max(times)}, as a router saw them"
    if unseen:
        source += f"; beyond, {beyond:.3f} x the profile before"
    changed = {**seen["profile"]["spec"], "latency": latency_of(fit), "source": source}
    manifest = {**seen["profile"], "spec": changed}
    ModelProfile.model_validate(manifest)
    return LearnedProfile(manifest, samples, fit, statistics.median(itertools.chain(*ratios)), beyond)


def _text(learned: list[LearnedProfile], output: str) -> str:
    if output == "table":
        words = "{:.3f} x the profile in force; at the largest batches, and beyond, {:.3f} x"
        said = [("median", words.format(one.ratio, one.beyond)) for one in learned]
        return text_of([fit_block(a.seen, a.fit, a.title, more) for a, more in zip(learned, said, strict=True)])
    manifests = [one.manifest for one in learned]
    whole = manifests[0] if len(learned) == 1 else {"apiVersion": "v1", "kind": "List", "items": manifests}
    return dump([whole], output, rows=True)
