"""The ways in which a decision changes instances: the first plan, growth, shrinking, replacement, and limits."""
