"""The five services and the node agent; each imports `shared` and nothing of another."""
