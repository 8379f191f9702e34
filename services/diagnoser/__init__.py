"""The diagnoser checks placed nodes before user code runs.

`domain.verdict` is the pure judgement: a node's figures, each by itself, against the floors of the settings.
`adapters.agents` asks the node agents for the figures, `handlers` reacts to a request and tells what was found,
`bootstrap` wires, `settings` says which environment variables it reads. The service keeps nothing: a request that was
not answered when it died is delivered again.
"""
