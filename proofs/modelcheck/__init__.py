"""Exhaustive check of placement at small scope: every interleaving of users, nodes, networks and processes.

Runs the shipped code (Placer, event handlers, Binds, Leadership) on a small true cluster, breadth first: a
counterexample is a shortest one.
"""
