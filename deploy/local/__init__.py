"""The one-machine launcher."""
