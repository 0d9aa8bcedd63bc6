"""Operator of hetserve: kopf tells when to look, hetserve.reconcile says what to do, one module reads, one writes."""
