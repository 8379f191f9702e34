"""The planner: a snapshot goes in, the gangs that start now come out. Pure and synchronous; the moment is passed in.

`layout` and `columns` are the store that everything works on: nodes as rows of integer columns. Four modules decide on
it, one after the other: `order` says whose turn it is, `fit` finds a place for a whole gang, `reserve` keeps one for a
gang that has to wait, `preempt` says which gangs could make room. `plan` puts them together.
"""
