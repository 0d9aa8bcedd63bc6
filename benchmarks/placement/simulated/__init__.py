"""HetSev's testbed in virtual time."""
