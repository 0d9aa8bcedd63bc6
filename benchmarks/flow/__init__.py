"""Planner flow on random pools, against simulation, search and the other planners."""
