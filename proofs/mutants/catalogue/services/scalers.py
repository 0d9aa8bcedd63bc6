"""Bugs of HorizontalPodAutoscalers that are named, and of the right to read them."""

from __future__ import annotations

from typing import Final

from mutants.changes import DropStatement, Replace
from mutants.mutant import Mutant

NAMED: Final = "tests/unit/operator/test_operator_names_scalers.py"
FACTS: Final = "tests/unit/reconcile/test_scalers.py"

SCALERS: Final = (
    Mutant(
        "scalers: a condition keeps the words of an earlier scaler",
        "hetserve.reconcile.status.scaling_status",
        "scaling_findings",
        Replace(
            "{**steady, ConditionType.SCALING_ACTIVE: foreign}",
            "{**steady, ConditionType.SCALING_ACTIVE: _steady(foreign, before.get('ScalingActive'))}",
        ),
        NAMED,
        "test_another_scaler_changes_the_words_though_the_reason_stays",
    ),
    Mutant(
        "scalers: one that is allowed by Advise is blamed",
        "hetserve.reconcile.status.scaling_status",
        "scaling_findings",
        Replace("None if decision.advises else foreign_scaler(scalers)", "foreign_scaler(scalers)"),
        NAMED,
        "test_where_only_advice_is_given_another_may_scale",
    ),
    Mutant(
        "scalers: those of Deployments that only have our label count",
        "hetserve_operator.watch.observe",
        "Observer._scalers",
        Replace("_belonging($service, $deployments)", "$deployments"),
        NAMED,
        "test_a_deployment_with_our_label_that_is_not_ours_may_have_a_scaler",
    ),
    Mutant(
        "scalers: without the right to read them the operator does not start",
        "hetserve_operator.watch.observe",
        "Observer._go_without",
        Replace("error.status not in (403, 404)", "error.status != 404"),
        NAMED,
        "test_without_the_right_to_read_scalers_all_else_goes_on",
    ),
    Mutant(
        "scalers: a failing server counts as a lack of rights",
        "hetserve_operator.watch.observe",
        "Observer._go_without",
        Replace("path not in _WITHOUT or error.status not in (403, 404)", "path not in _WITHOUT"),
        NAMED,
        "test_a_server_that_fails_is_no_lack_of_rights",
    ),
    Mutant(
        "scalers: nobody is woken by one",
        "hetserve_operator.watch.handlers",
        "EventHandlers._scaler_changed",
        DropStatement("self._add_later(Key(service.namespace, service.name))"),
        "tests/unit/operator/test_operator_wakes.py",
        "test_a_scaler_wakes_the_service_of_whose_deployments_its_target_may_be_one",
    ),
    Mutant(
        "scalers: one of another kind's target counts",
        "hetserve.reconcile.cluster.observed",
        "scaler_fact",
        Replace("(group, target['kind']) == ('apps', 'Deployment')", "group == 'apps'"),
        FACTS,
        "test_only_deployments_of_apps_are_targets_whatever_their_version",
    ),
)
