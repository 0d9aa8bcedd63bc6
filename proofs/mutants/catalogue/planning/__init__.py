"""Bugs of planning."""

from __future__ import annotations

from typing import Final

from mutants.catalogue.planning.flow import FLOW
from mutants.catalogue.planning.service_spec import SERVICE_SPEC
from mutants.catalogue.planning.shared_plans import SHARED_PLANS
from mutants.catalogue.planning.totals import TOTALS

PLANNING: Final = (
    *SHARED_PLANS,
    *FLOW,
    *TOTALS,
    *SERVICE_SPEC,
)
