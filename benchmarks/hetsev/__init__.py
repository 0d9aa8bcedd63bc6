"""HetSev's evaluation (its section 6) in a whole-cluster simulation, in virtual time."""
