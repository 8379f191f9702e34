"""YAML, which stays in the client: files become JSON documents that remember where in the file each value stands."""
