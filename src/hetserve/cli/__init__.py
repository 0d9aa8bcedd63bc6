"""The hetserve command."""
