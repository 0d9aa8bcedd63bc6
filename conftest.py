"""Fixtures of the control-plane harness for every test below; importing them builds and starts nothing."""

from hypothesis import settings

# A busy machine is no failure, and a failing example must be the same for everybody.
settings.register_profile("hetserve", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("hetserve")

pytest_plugins = ["harness.fixtures", "harness.distribution"]
