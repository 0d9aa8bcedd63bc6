"""Who of several operators writes, and the fence before the first change of a term."""
