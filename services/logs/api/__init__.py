"""The HTTP routes of the logs service."""
