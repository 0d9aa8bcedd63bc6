"""Builders and fakes for tests."""

from testing.builders import instance_type, model_profile, service, with_overrides

__all__ = ["instance_type", "model_profile", "service", "with_overrides"]
