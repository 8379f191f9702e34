"""Runs gangs as pods of a Kubernetes cluster.

What is known is what the API server says: nothing is kept on disk, so that any scheduler can take over at any moment.
`api` speaks to the server, `watching` follows what happens there, `pods` and `nodes` read it into facts, `picture` has
them, and `engine` stands behind the port. What a gang consists of as manifests is made in `objects`.
"""
