"""The `logs` service; its `__main__` says how to start it, `bootstrap` how it is wired."""
