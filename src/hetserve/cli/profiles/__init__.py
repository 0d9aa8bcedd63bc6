"""Commands about latency profiles: profile, reference."""
