"""The client of whoever is logged in, for commands."""

from __future__ import annotations

import os

from trainmaster.client import Client


def connected() -> Client:
    """A client for the address and token of the login; a context manager."""
    return Client.from_environment(os.environ)
