"""Whether the installation and this command line are of one version: facts in, findings out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from hetserve import __version__
from hetserve.cli.health.facts import ComponentFact
from hetserve.cli.health.finding import Finding, Level

CHECK: Final = "versions"
_WHY: Final = "it may decide by other rules than the commands plan, why and explain tell of"


def versions(components: tuple[ComponentFact, ...]) -> Iterator[Finding]:
    """A finding for each version that is not ours. CRDs have a check of their own, by their schema."""
    installed = [one for one in components if one.settings is True]
    names: dict[str, list[str]] = defaultdict(list)
    for one in installed:
        names[one.version].append(one.name)
    for version in sorted(names.keys() - {__version__}):
        yield _other(version, ", ".join(names[version]))
    if names.keys() == {__version__}:
        yield Finding(CHECK, Level.OK, f"components and command line are hetserve {__version__}")


def _other(version: str, names: str) -> Finding:
    if not version:
        what = f"nothing says which version of hetserve {names} is, and this command line is hetserve {__version__}"
        return Finding(CHECK, Level.NOTE, what, _WHY, "helm upgrade labels what it installs with its version")
    what = f"hetserve {version} is installed ({names}), and this command line is hetserve {__version__}"
    do = f"helm upgrade to hetserve {__version__} (docs/upgrade.md), or use the command line of hetserve {version}"
    return Finding(CHECK, Level.NOTE, what, _WHY, do)
