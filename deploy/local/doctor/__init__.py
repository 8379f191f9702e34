"""`trainmaster doctor`: what this machine can and cannot do, with the command that mends it.

A check is a function that looks at one thing and gives a `Finding`; what it looks at (a file, a limit, a port) is a
parameter with the machine's own as default. `software`, `hardware` and `system` hold the checks, `health` those of a
running platform, `command` puts them in order and prints them. Nothing is changed by looking.
"""
