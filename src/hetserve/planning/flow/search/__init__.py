"""The search for counts: leading solutions, trials by simulation, and proof."""
