"""Bugs of services that follow their load: demand, decisions, moves, records; and of engine and router."""

from __future__ import annotations

from typing import Final

from mutants.catalogue.services.demand import DEMAND
from mutants.catalogue.services.following import FOLLOWING
from mutants.catalogue.services.lateness import LATENESS
from mutants.catalogue.services.moves import MOVES
from mutants.catalogue.services.records import RECORDS
from mutants.catalogue.services.routing import ROUTING
from mutants.catalogue.services.scaling import SCALING
from mutants.catalogue.services.serving import SERVING

SERVICES: Final = (
    *DEMAND,
    *SCALING,
    *FOLLOWING,
    *LATENESS,
    *MOVES,
    *RECORDS,
    *SERVING,
    *ROUTING,
)
