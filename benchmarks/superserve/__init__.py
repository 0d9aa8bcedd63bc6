"""SuperServe's figures, measured on the simulator, and where our policy stands beside its own."""
