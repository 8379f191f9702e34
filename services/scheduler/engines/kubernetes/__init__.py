"""Runs gangs as pods of a Kubernetes cluster.

What is known is what the API server says: nothing is kept on disk, so that any scheduler can take over at any moment.
`watchers` follow what happens there, `gangs`, `pods` and `nodes` read it into facts, `picture` holds them, `verdicts`
judges them, and `observing` reports what is new. `starting` and `ending` change things; `engine` is what stands behind
the port.
What a gang consists of as manifests is made in `objects`.
"""
