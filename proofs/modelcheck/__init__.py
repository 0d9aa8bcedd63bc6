"""Exhaustive check of placement at small scope: every interleaving of what users, nodes, networks and processes do.

It runs the shipped code (Placer, sinks, Binds, Leadership) against a small true cluster and visits every state that any
order of steps can reach, breadth first, so that a counterexample is a shortest one.
"""
