"""Section 6.3: what four models cost, in the paper's accounting and by whole GPUs on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

from benchmarks.hetsev.intervals import Estimate, ratio
from benchmarks.hetsev.parts.playing import played
from benchmarks.hetsev.parts.settings import ALLOWED
from benchmarks.hetsev.plots import costs
from benchmarks.hetsev.results import OURS, PLACED, against, comparison, goals, of
from benchmarks.hetsev.runs import BOUND
from benchmarks.hetsev.scale import Scale
from benchmarks.reporting import Json, table

TITLE: Final = "Cost (section 6.3)"
PUBLISHED: Final = 1.79
_FEWER: Final = 1.3
_SHOWN: Final = ("kubernetes", "ilp-exclusive", "hetsev", OURS[0])
_PAIRS: Final = tuple((ours, rival) for ours in (*OURS, *PLACED) for rival in ("ilp-exclusive", "ilp-exclusive-count"))
_ALONE: Final = ("kubernetes", "hpa-v100", "hpa-t4", "ilp-exclusive", "ilp-exclusive-count")
_WORDS: Final = """Four models over 3000 s with spikes at times of their own, at the peak 1.2 times what a V100 serves;
{seeds} seeds. `ilp-exclusive` aims at little money and `hetserve-count` at few GPUs: their ratio is of both aims and
of sharing. Sharing alone is the [ablation](#ablation-on-section-63)'s first step. A controller with one instance a GPU
that aims at few GPUs, too, needs about as many as `hetserve-count` (last rows): here one V100 carries most of what its
model is asked, and plans take each instance to be as slow as its neighbours may ever make it.
"""
_MADE_OF: Final = """### What the paper's ratio is made of

In the paper's accounting the baseline pays for the memory of whole GPUs, and HetSev for that which its instances use:
here 3 of 32 or 16 GiB. Each step below is the ratio of `kubernetes`, as the paper counts it, over what stands in the
row, mean of the models' ratios. The first step changes the accounting alone: the same play, no GPU fewer. The second
chooses the cheaper type, of which a GiB costs an eighth. The third row has both and shares nothing: what is below it is
not won by sharing, because in this accounting the rest of a GPU costs nobody anything.
"""
_STEPS: Final = (
    ("`kubernetes`, its own memory counted alone", "kubernetes", "held"),
    ("`hpa-t4`, whole GPUs", "hpa-t4", "whole"),
    ("`hpa-t4`, its own memory counted alone", "hpa-t4", "held"),
    ("`hetsev`, its own memory (the paper's ratio)", "hetsev", "held"),
    ("`hetserve`, its own memory", OURS[0], "held"),
)


def measure(scale: Scale) -> Json:
    return played("cost", scale, (), (OURS[1], *PLACED)) | {"quick": scale.quick}


def describe(data: Json) -> str:
    figures = data["figures"]
    parts = [_WORDS.format(seeds=data["seeds"]), comparison(figures), goals(_goals(figures)), _MADE_OF]
    steps = [(what, _mean_over_models(figures, name, kind).text(".2f", " x")) for what, name, kind in _STEPS]
    parts.append(table(("counted", "`kubernetes`, whole GPUs, over it"), steps))
    parts.append("### By model, in the paper's accounting\n")
    if not data["quick"]:
        parts.append(costs("cost", *_bars(figures), "GiB x price x s"))
    parts.append(_by_model(figures))
    return "\n".join(parts)


def _goals(figures: Json) -> list[tuple[str, str, str, bool | None]]:
    rows: list[tuple[str, str, str, bool | None]] = []
    for name in ("hetsev", OURS[0]):
        mean = _mean_over_models(figures, name, "held")
        goal, held = (
            (f">= {PUBLISHED} x", mean.mean >= PUBLISHED) if name in OURS else (f"{PUBLISHED} x published", None)
        )
        rows.append(
            (f"paper's accounting, `kubernetes` over `{name}`, mean of models", goal, mean.text(".2f", " x"), held)
        )
    for ours, rival in _PAIRS:
        fewer = against(figures, rival, ours, lambda one: one["all_gpu_hours"])
        late, theirs = (fmean(of(figures, name, lambda one: one["late"])) for name in (ours, rival))
        held = fewer.mean >= _FEWER and late <= theirs
        what = f"whole GPUs by count, `{rival}` over `{ours}`, at {late:.2%} late beside {theirs:.2%}"
        rows.append((what, f">= {_FEWER} x", fewer.text(".2f", " x"), held))
    rows += [
        _least(figures, *one) for one in (("all_gpu_hours", "GPU-hours", OURS[1]), ("dollars", "dollars", OURS[0]))
    ]
    for name in (*OURS, *PLACED):
        for what, field, bound in (("GPU-hours", "all_gpu_hours", "gpu_hours"), ("dollars", "dollars", "dollars")):
            above = [one[field] for one in figures[name]]
            distance = ratio(above, [one[bound] for one in figures[BOUND]])
            rows.append((f"{what}, `{name}` over the clairvoyant bound", "", distance.text(".2f", " x"), None))
    return rows


def _least(figures: Json, field: str, what: str, ours: str) -> tuple[str, str, str, None]:
    """The best controller with one instance a GPU, of those that are late seldom enough, over ours."""
    kept = [name for name in _ALONE if fmean(of(figures, name, lambda one: one["late"])) <= ALLOWED]
    rival = min(kept, key=lambda name: fmean(of(figures, name, lambda one: one[field])))
    fewer = against(figures, rival, ours, lambda one: one[field])
    return f"{what}, the least of exclusive GPUs (`{rival}`) over `{ours}`", "", fewer.text(".2f", " x"), None


def _mean_over_models(figures: Mapping[str, Sequence[Json]], name: str, kind: str) -> Estimate:
    """`kubernetes`, whole GPUs, over a controller in one accounting: by seed, the mean of the models' ratios."""
    pairs = zip(figures["kubernetes"], figures[name], strict=True)
    means = [fmean(base["whole"][model] / max(one[kind][model], 1e-9) for model in one[kind]) for base, one in pairs]
    return ratio(means, [1.0] * len(means))


def _bars(figures: Json) -> tuple[dict[str, list[float]], list[str]]:
    models = list(figures["kubernetes"][0]["paper_by_model"])
    bars = {
        name: [fmean(of(figures, name, lambda one, model=model: one["paper_by_model"][model])) for model in models]  # type: ignore[misc]
        for name in _SHOWN
    }
    return bars, models


def _by_model(figures: Json) -> str:
    bars, models = _bars(figures)
    rows = []
    for k, model in enumerate(models):
        values = [bars[name][k] for name in _SHOWN]
        rows.append((model, *(f"{value:.0f}" for value in values), *(f"{values[0] / one:.2f} x" for one in values[2:])))
    head = ("model", *(f"`{name}`" for name in _SHOWN), *(f"`kubernetes` over `{name}`" for name in _SHOWN[2:]))
    return table(head, rows)
