"""HetSev: the least cost that carries a load, by an integer program and by a heuristic (Electronics 2023)."""
