"""The use cases behind the HTTP API."""
