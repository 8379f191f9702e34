"""The watchdog reads what replicas write, tells errors and hangs, and decides what follows the end of an attempt.

`domain` judges and is pure. `scanning` reads the logs as they pass and remembers in `adapters.memory`, `hangs` listens
for silence, `incidents` puts what was noticed on record; `handlers` decides when an attempt has ended, after `evidence`
has waited for its logs. `watched` knows which jobs this concerns, `bootstrap` wires, `settings` says which environment
variables it reads. `bundles` takes evidence of hangs. `desk` is what has to do with people: the log of incidents that
`recording` keeps, what they may read of it (`reading`), rules of admins (`ruling`), and notifications (`subscribing`,
`notifying`).
"""
