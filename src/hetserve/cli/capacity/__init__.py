"""Commands that plan and simulate capacity: plan, compare, search, simulate."""
