"""The work on one service: queue, workers, controller, writer."""
