"""hetserve as a controller of the scene: its operator, planners and placer, over an API server in memory."""
