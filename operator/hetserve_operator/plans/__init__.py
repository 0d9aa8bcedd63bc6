"""Plans: what services ask for, and the processes that answer."""
