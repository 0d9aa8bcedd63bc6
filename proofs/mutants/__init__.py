"""Known bugs, planted one at a time into a copy of the source; each must be caught by the test that it names."""
