"""HetSev: the least cost that carries a load (Electronics 2023)."""
