"""The scheduler's HTTP API: pools and instance types, nodes, the queue and why a job waits in it."""
