"""Speaking to a Kubernetes API server: names that engine and agent share, access, list-then-watch."""
