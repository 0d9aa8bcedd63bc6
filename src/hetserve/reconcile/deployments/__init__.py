"""Deployments: what they should be, whose they are, and the next write that brings them there."""
