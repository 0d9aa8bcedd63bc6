"""Learned dispatch policies: what they see and do, recorded by the engine, and how they get better by it."""
