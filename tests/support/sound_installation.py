"""Facts of an installation in which nothing is wrong."""

from __future__ import annotations

from dataclasses import replace

from hetserve import __version__
from hetserve.api import names
from hetserve.api.kinds import KINDS
from hetserve.base.units import Seconds
from hetserve.cli.health.judgement import (
    ComponentFact,
    CrdFact,
    DeploymentFact,
    FailedPods,
    InstallationFacts,
    LeaseFact,
    NodesFact,
    SchedulerFact,
)

LEASE = LeaseFact("one", Seconds(0.4), Seconds(3.0))
EXTENDER = ComponentFact(
    name="hetserve-extender",
    component="extender",
    settings=True,
    elects=True,
    lease=LEASE,
    deployment=DeploymentFact(2, 2),
    version=__version__,
)
OPERATOR = replace(EXTENDER, name="hetserve-operator", component="operator")
SECOND = replace(EXTENDER, name="hetserve-scheduler", component="scheduler")
SCHEDULER = SchedulerFact("http://127.0.0.1:8888", False, ("hetserve-scheduler",))
WELL = InstallationFacts(
    namespace="s",
    version=(1, 35, "v1.35.0"),
    crds={resource.plural: CrdFact(True) for resource in KINDS},
    components=(OPERATOR, EXTENDER, SECOND),
    scheduler=SCHEDULER,
    failed=FailedPods(0),
    nodes=NodesFact(3, 4),
    own=(),
    missing_rights=(),
    policies=names.ADMISSION_POLICIES,
)
