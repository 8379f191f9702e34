"""The HTTP API of the diagnoser."""
