"""Fixtures of the control-plane harness for every test below; importing them builds and starts nothing."""

pytest_plugins = ["harness.fixtures", "harness.distribution"]
