"""The bugs, and the test that must catch each."""

from __future__ import annotations

from typing import Final

from mutants.catalogue.leaders import LEADERS
from mutants.mutant import Mutant
from mutants.catalogue.queues import QUEUEING

LEDGER: Final = "src/hetserve/placement/ledger/ledger.py"
INDEX: Final = "src/hetserve/placement/ledger/index.py"
PLACER: Final = "src/hetserve/placement/placer.py"
PODS: Final = "src/hetserve/placement/pods/view.py"
BIND: Final = "scheduler_extender/hetserve_extender/verbs/bind.py"
FENCE: Final = "scheduler_extender/hetserve_extender/leader/fence.py"

FAULT: Final = "tests/modelcheck/test_single_faults.py"
UNIT: Final = "tests/unit/placement/test_ledger.py"
DOUBT: Final = "tests/adversarial/test_binds_in_doubt.py"
VERBS: Final = "tests/unit/extender/test_verbs.py"

PLACEMENT: Final = (
    Mutant(
        "no UID check in bind",
        BIND,
        '"namespace": args.namespace, "uid": args.uid}',
        '"namespace": args.namespace}',
        FAULT,
        "test_a_pod_created_again_under_its_name_is_another_pod",
    ),
    Mutant(
        "release on the delete event only",
        LEDGER,
        "        if pod.finished:\n            self.release(pod.uid)\n        elif",
        "        if",
        UNIT,
        "test_a_finished_pod_holds_nothing",
    ),
    Mutant(
        "a reservation that never expires",
        LEDGER,
        "self._add(Booking(request, places, mib, State.RESERVED, deadline))",
        "self._add(Booking(request, places, mib, State.RESERVED))",
        VERBS,
        "test_a_reservation_nobody_binds_ends",
    ),
    Mutant(
        "name instead of UID",
        PODS,
        'uid=required(metadata.get("uid"), "metadata.uid")',
        'uid=required(metadata.get("name"), "metadata.name")',
        "tests/adversarial/test_placement_attacks.py",
        "test_the_same_name_with_a_new_uid_is_another_pod",
    ),
    Mutant(
        "unsigned subtraction",
        INDEX,
        "        self.pods[row] += sign\n",
        "        self.free[row] = max(int(self.free[row]), 0)\n        self.pods[row] += sign\n",
        UNIT,
        "test_an_inventory_that_shrinks_is_over_used_not_clipped",
    ),
    Mutant(
        "terminating pods are forgotten",
        LEDGER,
        "        if pod.finished:\n",
        "        if pod.finished or pod.terminating:\n",
        FAULT,
        "test_a_terminating_pod_holds_its_gpu_and_a_finished_one_does_not",
    ),
    Mutant(
        "a bind begun again is settled as the old one",
        BIND,
        " or self.placer.ledger.booking(request.uid) is not booking:",
        ":",
        FAULT,
        "test_a_bind_lost_again_while_others_are_looked_up_is_not_settled_as_the_old_one",
    ),
    Mutant(
        "every id that a tenant writes is booked",
        PODS,
        'if len(written) <= LONGEST_LIST and written.count(",") < MAX_GPUS_PER_NODE:',
        "if True:",
        "tests/unit/placement/test_what_tenants_write.py",
        "test_ids_that_no_node_can_have_are_one_place_and_one_short_line",
    ),
    Mutant(
        "a list leaves the watch of before running",
        "shell_kit/hetserve_shell/kube/informer.py",
        "self._following.reschedule(loop.time())",
        "loop.time()",
        "tests/unit/extender/test_list_watch_orders.py",
        "test_what_happens_while_pages_come_is_known_with_the_next_word_of_the_server",
    ),
    Mutant(
        "init containers are not counted",
        "src/hetserve/objects/resources.py",
        'for container in objects(spec.get("initContainers"), "initContainers"):',
        "for container in ():",
        "tests/unit/placement/test_pod_requests.py",
        "test_gpu_memory_of_a_pod",
    ),
    Mutant(
        "bind does not look at its reservation again",
        PLACER,
        "if held.state is State.BINDING or self._good(held):",
        "if held.places:",
        DOUBT,
        "test_a_gpu_that_shrank_after_filter_is_not_bound",
    ),
    Mutant(
        "bind ends with its caller",
        BIND,
        "asyncio.wait((task,), timeout=self.answer_within)",
        "asyncio.wait_for(task, self.answer_within)",
        FAULT,
        "test_a_caller_that_hangs_up_leaves_no_booking_without_an_end",
    ),
    Mutant(
        "a lost answer frees the GPU",
        BIND,
        "            await self._settle(args, lost=True, words=str(error))\n",
        "            await self._settle(args, lost=False, words=str(error))\n",
        FAULT,
        "test_a_bind_without_an_answer_keeps_its_gpu",
    ),
    Mutant(
        "a refusal frees what an earlier bind may take",
        BIND,
        "elif answer.status == 409 or in_doubt:",
        "elif answer.status == 409:",
        FAULT,
        "test_a_refused_bind_frees_nothing_that_an_earlier_one_may_take",
    ),
    Mutant(
        "an answered read counts as confirmed",
        PLACER,
        "self.ledger.observe(pod, Seconds(self.clock() + VERIFY_AFTER))",
        "self.ledger.observe(pod)",
        FAULT,
        "test_an_answer_that_the_watch_has_overtaken_is_not_believed_for_ever",
    ),
    Mutant(
        "a failed bind frees another's",
        BIND,
        "if held is not None and not held.confirmed:",
        "if held is not None:",
        DOUBT,
        "test_a_failed_bind_does_not_free_what_the_watch_showed_bound_meanwhile",
    ),
    Mutant(
        "a list ends binds younger than it",
        LEDGER,
        "            if booking.confirmed:\n",
        "            if booking:\n",
        UNIT,
        "test_a_relist_ends_what_is_gone_and_doubts_what_is_younger_than_the_list",
    ),
    Mutant(
        "a late report takes the new node away",
        LEDGER,
        "if known is None or known.uid != uid:",
        "if known is None:",
        "tests/unit/placement/test_ledger.py",
        "test_bound_pods_hold_their_gpu_through_the_return_of_a_node_but_reservations_end",
    ),
    Mutant(
        "bound pods are dropped with their node",
        LEDGER,
        "if booking.node == node and booking.state is State.RESERVED and",
        "if booking.node == node and",
        FAULT,
        "test_a_node_that_comes_back_still_holds_its_pods",
    ),
    Mutant(
        "the model is not looked at",
        INDEX,
        "        if request.model is None:",
        "        if request.model != 0:",
        FAULT,
        "test_what_fits_side_by_side_is_bound_side_by_side",
    ),
    Mutant(
        "what is reserved looks free",
        INDEX,
        "        self.free[row] -= sign *",
        "        self.free[row] -= 0 *",
        FAULT,
        "test_a_bind_without_an_answer_keeps_its_gpu",
    ),
    Mutant(
        "bind takes what filter knew of the pod",
        PLACER,
        "held.node == node and held.request.claim == request.claim:",
        "held.node == node:",
        FAULT,
        "test_a_pod_that_gets_another_model_on_its_way_shares_with_nobody_of_that_model",
    ),
    Mutant(
        "what changed with a pod's revision is not looked at",
        FENCE,
        "return revision, self.changed(raw)",
        'return revision, ""',
        FAULT,
        "test_a_pod_that_gets_another_model_on_its_way_shares_with_nobody_of_that_model",
    ),
    Mutant(
        "a bound pod that does not say where holds nothing",
        LEDGER,
        "        places = tuple((node, gpu) for gpu in gpus)\n",
        "        places = tuple((node, gpu) for gpu in pod.gpus)\n",
        FAULT,
        "test_a_pod_that_no_longer_says_where_it_runs_keeps_its_gpu",
    ),
    Mutant(
        "GPUs of another device plugin are nobody's",
        "src/hetserve/objects/resources.py",
        "return resource in _PLUGIN or resource.startswith(names.RESOURCE_NVIDIA_MIG)",
        "return False",
        "tests/unit/placement/test_pods_past_us.py",
        "test_a_node_with_such_a_pod_takes_no_new_pods_until_it_ends",
    ),
    Mutant(
        "a pod that cannot be read is not there",
        PLACER,
        "seen = pod or unread_pod(raw)",
        "seen = pod",
        "tests/unit/placement/test_pods_past_us.py",
        "test_a_pod_that_cannot_be_read_any_more_keeps_what_it_held_and_closes_its_node",
    ),
)

MUTANTS: Final = (*PLACEMENT, *LEADERS, *QUEUEING)

QUICK: Final = tuple(mutant for mutant in MUTANTS if mutant.file in (DOUBT, UNIT))
"""Those whose tests take about a second each."""
