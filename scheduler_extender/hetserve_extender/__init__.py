"""Scheduler extender: the shell around `hetserve.placement` that speaks with kube-scheduler and the API server."""
