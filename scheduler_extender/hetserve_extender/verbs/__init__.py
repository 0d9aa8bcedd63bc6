"""The verbs of the scheduler: filter, prioritize, bind."""
