"""Terms of instances that run, beside those that their profile asks for now: they only become stricter.

Whatever is looser by the new ones would restart instances to free room that nobody promised.
"""

from __future__ import annotations

from hetserve.objects.gpu_sharing import SharingTerms


def kept_terms(held: SharingTerms, wanted: SharingTerms) -> SharingTerms:
    """What instances with terms `held` are to have where `wanted` are asked for, as long as nothing else changes.

    Element by element the larger share and harm, and the smaller tolerance. A model that only `wanted` names, with no
    more harm than what is held for models not named, is not named.
    """
    others = max(held.others, wanted.others)
    known = {model for model, _ in held.named}
    harm = {model: max(held.on(model), wanted.on(model)) for model in known | {model for model, _ in wanted.named}}
    named = tuple((model, h) for model, h in sorted(harm.items()) if model in known or h > others)
    return SharingTerms(max(held.share, wanted.share), min(held.tolerance, wanted.tolerance), others, named)


def are_enough(held: SharingTerms, wanted: SharingTerms) -> bool:
    """Whether instances with terms `held` keep what `wanted` promise."""
    return kept_terms(held, wanted) == held
