"""From what runs to a plan: the next step within every limit, and how far it has come."""
