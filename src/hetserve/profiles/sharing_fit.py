"""Fits compute share and interference to runs of copies and neighbours, with 95 % confidence intervals.

Copies that are always busy finish `copies / mean latency` queries per second. Where compute is the limit, k copies of a
model with share u reach min(k, 1 / u) times the throughput of one. So no run allows a share above 1 / its throughput,
and the run of the most copies decides. The best run of several would say too little: it is the luckiest, too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hetserve.base.csv_rows import CsvError
from hetserve.base.units import Millionths, format_ratio
from hetserve.objects.gpu_sharing import ONE
from hetserve.profiles.fit import without_outliers
from hetserve.profiles.measurements import Measurements, Run
from hetserve.registry.choices import SharingMode

ENOUGH: Final = 20
"""Least number of queries of a run."""
# Queries that follow each other are alike. So the error of a mean comes from the means of ten parts of the run, which
# differ by all that changes slowly, too. Student's t of nine degrees of freedom.
_PARTS: Final = 10
_STUDENT: Final = 2.262
_NOTABLE: Final = 1.05
_FASTEST: Final = 0.8
_DIGITS: Final = 10_000
_COUNTER_TELLS: Final = (
    "a counter tells for how long a GPU had work, not how much of it a copy needs, and can be far below the share: "
    "an instance that shows 0.36 can need 0.57, and of three such instances all queues grow without end"
)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def over(self, divisor: float) -> Estimate:
        return Estimate(self.value / divisor, self.low / divisor, self.high / divisor)


@dataclass(frozen=True, slots=True)
class CopiesRun:
    """stretch: latency / latency of one copy."""

    copies: int
    queries: int
    stretch: Estimate

    @property
    def throughput(self) -> Estimate:
        """In throughputs of one copy."""
        s = self.stretch
        return Estimate(self.copies / s.value, self.copies / s.high, self.copies / s.low)

    @property
    def share(self) -> Estimate:
        """Greatest share with which this run is possible."""
        s = self.stretch
        return Estimate(max(s.value, 1.0), max(s.low, 1.0), max(s.high, 1.0)).over(self.copies)


@dataclass(frozen=True, slots=True)
class ShareFit:
    """share: of the GPU's compute at `batch`. runs: ascending, one copy first; none for a guess from a `counter`."""

    batch: int
    share: Estimate
    runs: tuple[CopiesRun, ...] = ()
    counter: str | None = None

    @property
    def stated(self) -> Millionths:
        """For the profile: the upper end of the interval, four decimals, rounded up."""
        return min(_rounded_up(self.share.high), ONE)


@dataclass(frozen=True, slots=True)
class FactorFit:
    """factor: latency of `model` at `batch` beside the profile's model at `own_batch` / alone."""

    model: str
    batch: int
    own_batch: int
    queries: int
    factor: Estimate

    @property
    def stated(self) -> Millionths:
        """For the profile: the upper end of the interval, four decimals, rounded up, at least 1."""
        return max(_rounded_up(self.factor.high), ONE)


@dataclass(frozen=True, slots=True)
class SharingFit:
    """factors: one per model and batch, the greatest over the own batches. notes: for the user."""

    mode: SharingMode
    share: ShareFit
    factors: tuple[FactorFit, ...]
    notes: tuple[str, ...] = ()


def fit_sharing(
    measured: Measurements, mode: SharingMode, batch: int | None = None, *, keep_wild: bool = False
) -> SharingFit:
    """Fit of the runs of copies and neighbours.

    batch: the largest of the mix; None: the largest at which copies ran. Without copies a utilisation counter is taken
    for a first guess. keep_wild: as for `fit_samples`. Raises CsvError with every reason why a run says nothing.
    """
    notes: list[str] = []
    runs = (
        measured.runs
        if keep_wild
        else without_outliers(measured.runs, notes, "queries, with those of copies and neighbours,")
    )
    fit_share = _from_copies if measured.copied else _from_counter
    share = fit_share(measured, runs, batch, notes)
    factors = _factors(measured, runs)
    _note_batches(measured, share, factors, notes)
    return SharingFit(mode, share, factors, tuple(notes))


def ratio_of_means(above: Sequence[float], below: Sequence[float]) -> Estimate:
    """Mean of `above` / mean of `below`, in the order of measurement; at least 20 each."""
    value = float(np.mean(above) / np.mean(below))
    reach = math.exp(_STUDENT * math.hypot(_relative_error(above), _relative_error(below)))
    return Estimate(value, value / reach, value * reach)


def _relative_error(latencies: Sequence[float]) -> float:
    means = [float(np.mean(part)) for part in np.array_split(np.array(latencies), _PARTS)]
    return float(np.std(means, ddof=1) / np.mean(means)) / math.sqrt(_PARTS)


def _from_copies(
    measured: Measurements, runs: Mapping[Run, tuple[float, ...]], batch: int | None, notes: list[str]
) -> ShareFit:
    model, there = measured.model, sorted({run.batch for run in runs if run.copies > 1})
    if batch is not None and batch not in there:
        at = ", ".join(map(str, there))
        raise CsvError([f"{measured.name}: no copies of {model} ran at batch {batch}; measure them; there are: {at}"])
    batch = there[-1] if batch is None else batch
    alone = runs.get(Run(model, batch))
    if alone is None:
        raise CsvError([f"{measured.name}: copies of {model} ran at batch {batch}, but not one alone; measure it, too"])
    copies = [run for run in runs if run.batch == batch and run.model == model]
    _refuse_few(measured, {run: runs[run] for run in copies})
    fits = tuple(CopiesRun(run.copies, len(runs[run]), _stretch(runs[run], alone, run)) for run in copies)
    _refuse_faster(measured, {run: fit.stretch for run, fit in zip(copies, fits, strict=True)})
    _note_trend(fits, notes)
    return ShareFit(batch, fits[-1].share, fits)


def _stretch(latencies: Sequence[float], alone: Sequence[float], run: Run) -> Estimate:
    return Estimate(1.0, 1.0, 1.0) if run.alone else ratio_of_means(latencies, alone)


def _note_trend(runs: tuple[CopiesRun, ...], notes: list[str]) -> None:
    """Whether the last copy still raises the throughput, so that the share can be less, or lowers it."""
    before, last = runs[-2:]
    gain = last.throughput.value / before.throughput.value
    if gain < 1 / _NOTABLE:
        notes.append(
            f"the throughput of {last.copies} copies is {(1 - gain) * 100:.0f} % below that of {before.copies}, which "
            f"give a share of {before.share.value:.3f}: the share contains what sharing itself costs"
        )
    if gain > _NOTABLE:
        notes.append(
            f"the throughput of {last.copies} copies is {(gain - 1) * 100:.0f} % above that of {before.copies}: "
            f"the share can be less than {last.share.value:.3f}; run {last.copies + 1} copies to know"
        )
    if last.throughput.high < 1:
        notes.append(f"{last.copies} copies together serve less than one alone: sharing this GPU does not pay")


def _from_counter(
    measured: Measurements, _runs: Mapping[Run, tuple[float, ...]], batch: int | None, notes: list[str]
) -> ShareFit:
    name, counters = measured.name, measured.counters
    if not counters:
        raise CsvError([f"{name}: no run of copies of {measured.model}: measure 2 and 3 copies (column copies)"])
    there = sorted({b for by_batch in counters.values() for b in by_batch})
    batch = there[-1] if batch is None else batch
    guesses = [(by_batch[batch], counter) for counter, by_batch in counters.items() if batch in by_batch]
    if not guesses:
        at = ", ".join(map(str, there))
        raise CsvError([f"{name}: no counter of {measured.model} at batch {batch}; measure it; there are: {at}"])
    guess, counter = max(guesses, key=lambda pair: pair[0])
    if guess == 0:
        raise CsvError([f"{name}: {counter} is 0 at batch {batch}: the GPU did nothing; measure copies"])
    notes.append(f"computeShare {guess:.4g} is a first guess from {counter}: {_COUNTER_TELLS}. Measure copies")
    return ShareFit(batch, Estimate(guess, guess, guess), counter=counter)


def _factors(measured: Measurements, runs: Mapping[Run, tuple[float, ...]]) -> tuple[FactorFit, ...]:
    beside = [run for run in runs if run.neighbour]
    alone = {Run(run.model, run.batch) for run in beside}
    _refuse(
        measured,
        [
            f"{run.model} at batch {run.batch} ran beside {measured.model}, but not alone; measure it, too"
            for run in sorted(alone - runs.keys())
        ],
    )
    _refuse_few(measured, {run: runs[run] for run in sorted({*beside, *alone})})
    greatest: dict[tuple[str, int], FactorFit] = {}
    ratios = {run: ratio_of_means(runs[run], runs[Run(run.model, run.batch)]) for run in beside}
    _refuse_faster(measured, ratios)
    for run, factor in ratios.items():
        fit = FactorFit(run.model, run.batch, run.neighbour_batch, len(runs[run]), factor)
        key = run.model, run.batch
        greatest[key] = max(greatest.get(key, fit), fit, key=lambda one: one.factor.high)
    return tuple(greatest.values())


def _refuse_few(measured: Measurements, runs: Mapping[Run, tuple[float, ...]]) -> None:
    short = {run: len(own) for run, own in runs.items() if len(own) < ENOUGH}
    needed = f"at least {ENOUGH} are needed to say how sure a mean is"
    _refuse(measured, [f"{describe(run)}: {count} queries; {needed}" for run, count in short.items()])


def _refuse_faster(measured: Measurements, ratios: Mapping[Run, Estimate]) -> None:
    """Raises CsvError where latencies over those alone are far below 1: nothing of sharing makes a query faster."""
    again = "measure both again, in the same unit, on the same GPU, after its warm-up"
    errors = [
        f"{describe(run)}: {ratio.value:.3g} times the latency of one alone; sharing makes no query faster: {again}"
        for run, ratio in ratios.items()
        if ratio.high < _FASTEST
    ]
    _refuse(measured, errors)


def _refuse(measured: Measurements, errors: Sequence[str]) -> None:
    """Raises CsvError for errors, if there are any."""
    if errors:
        raise CsvError([f"{measured.name}: {error}" for error in errors])


def _note_batches(measured: Measurements, share: ShareFit, factors: tuple[FactorFit, ...], notes: list[str]) -> None:
    largest = max(measured.alone.by_batch)
    if largest > share.batch:
        notes.append(
            f"the share is that at batch {share.batch}, and alone up to batch {largest} was measured: if larger "
            "batches are in the mix, measure copies at its largest"
        )
    notes.extend(
        f"{fit.model} was measured beside batch {fit.own_batch} of {measured.model}, not {share.batch}: beside larger "
        "batches it can be slower"
        for fit in factors
        if fit.own_batch < share.batch
    )
    notes.extend(
        f"{count} queries of {measured.model} beside {neighbour} are not used: they tell what {neighbour} does, and "
        f"belong into its profile (--model {neighbour})"
        for neighbour, count in measured.beside_others.items()
    )


def describe(run: Run) -> str:
    """Such as ``2 copies of rm2 at batch 8``."""
    what = f"{run.model} at batch {run.batch}"
    if run.neighbour:
        return f"{what} beside {run.neighbour} at batch {run.neighbour_batch}"
    return f"{what} alone" if run.alone else f"{run.copies} copies of {what}"


def sharing_fields(fit: SharingFit) -> dict[str, object]:
    """The fields of a ModelProfile's spec."""
    fields: dict[str, object] = {"computeShare": format_ratio(fit.share.stated), "sharingMode": fit.mode}
    if fit.factors:
        fields["interference"] = [
            {"model": one.model, "batch": one.batch, "factor": format_ratio(one.stated)} for one in fit.factors
        ]
    return fields


def share_source(fit: ShareFit) -> str:
    """For the profile's `source`: what the share comes from."""
    if fit.counter is not None:
        return f"computeShare guessed from {fit.counter} at batch {fit.batch}, not measured"
    reached = fit.runs[-1].throughput
    return (
        f"computeShare at batch {fit.batch}: {fit.runs[-1].copies} copies reach {reached.value:.3f} "
        f"({reached.low:.3f} to {reached.high:.3f}) times the throughput of one"
    )


def _rounded_up(value: float) -> Millionths:
    """Four decimals, rounded up, more than 0; rounding errors of floats do not count."""
    return Millionths(max(1, math.ceil(value * _DIGITS - 1e-6)) * (ONE // _DIGITS))
