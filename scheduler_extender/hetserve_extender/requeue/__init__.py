"""Asks the scheduler to try refused pods again: `requeuer` patches those that `refused_pods` decides are due."""
