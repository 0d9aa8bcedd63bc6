"""The controllers that hetserve is compared with, one module each, and a bound that none can beat."""
