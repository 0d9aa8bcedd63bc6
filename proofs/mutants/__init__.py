"""Known bugs, planted one at a time into a copy of the source; each has a test that must catch it."""
