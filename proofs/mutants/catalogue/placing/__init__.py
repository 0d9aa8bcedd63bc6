"""Bugs of placement: the ledger, what a pod asks for, queues, and who may have a GPU."""

from __future__ import annotations

from typing import Final

from mutants.catalogue.placing.binding import BINDING
from mutants.catalogue.placing.compute import COMPUTE
from mutants.catalogue.placing.givers import GIVERS
from mutants.catalogue.placing.keeping import KEEPING
from mutants.catalogue.placing.ledger import LEDGER
from mutants.catalogue.placing.placement import PLACEMENT
from mutants.catalogue.placing.queues import QUEUES
from mutants.catalogue.placing.reading import READING
from mutants.catalogue.placing.sharing import SHARING
from mutants.catalogue.placing.tenants import TENANTS
from mutants.catalogue.placing.terms import TERMS

PLACING: Final = (
    *LEDGER,
    *COMPUTE,
    *PLACEMENT,
    *READING,
    *BINDING,
    *QUEUES,
    *SHARING,
    *TENANTS,
    *TERMS,
    *GIVERS,
    *KEEPING,
)
