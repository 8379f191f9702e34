"""The scheduler's decisions: pure and synchronous; jobs, engine reports and the time come in, plans and actions go out.

`nodes` and `ledger` know what is there and what is held; `planning` turns a snapshot into starts;
`explain` says why a job waits; `limits` and `progress` judge a running gang; `reconcile` puts it together.
"""
