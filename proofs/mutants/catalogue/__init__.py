"""The bugs by subject, and the test that must catch each."""

from __future__ import annotations

from typing import Final

from mutants.catalogue.binding import BINDING
from mutants.catalogue.certificates import CERTIFICATES
from mutants.catalogue.compute import COMPUTE
from mutants.catalogue.demand import DEMAND
from mutants.catalogue.flow import FLOW
from mutants.catalogue.following import FOLLOWING
from mutants.catalogue.givers import GIVERS
from mutants.catalogue.health import HEALTH
from mutants.catalogue.lateness import LATENESS
from mutants.catalogue.leaders import LEADERS
from mutants.catalogue.ledger import LEDGER
from mutants.catalogue.moves import MOVES
from mutants.catalogue.operators import OPERATORS
from mutants.catalogue.placement import PLACEMENT
from mutants.catalogue.queues import QUEUES
from mutants.catalogue.readers import READERS
from mutants.catalogue.reading import READING
from mutants.catalogue.records import RECORDS
from mutants.catalogue.scalers import SCALERS
from mutants.catalogue.scaling import SCALING
from mutants.catalogue.service_spec import SERVICE_SPEC
from mutants.catalogue.shared_plans import SHARED_PLANS
from mutants.catalogue.sharing import SHARING
from mutants.catalogue.tenants import TENANTS
from mutants.catalogue.totals import TOTALS
from mutants.catalogue.twin import TWIN

MUTANTS: Final = (
    *LEDGER,
    *COMPUTE,
    *PLACEMENT,
    *READING,
    *BINDING,
    *LEADERS,
    *OPERATORS,
    *MOVES,
    *SHARED_PLANS,
    *SHARING,
    *QUEUES,
    *FLOW,
    *SCALING,
    *FOLLOWING,
    *LATENESS,
    *SCALERS,
    *RECORDS,
    *SERVICE_SPEC,
    *TENANTS,
    *TOTALS,
    *DEMAND,
    *TWIN,
    *HEALTH,
    *CERTIFICATES,
    *GIVERS,
    *READERS,
)

_QUICK_FILES: Final = ("tests/unit/placement/test_ledger.py", "tests/adversarial/test_binds_in_doubt.py")

QUICK: Final = tuple(mutant for mutant in MUTANTS if mutant.file in _QUICK_FILES)
"""Those whose tests take about a second each."""
