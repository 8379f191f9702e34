"""Answers about a plan: what would start a gang, who is in its way, when its turn may come, why a place is its place.

Nothing here is a guess about the planner: whatever is said to start now has been planned.
"""
