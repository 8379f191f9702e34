"""What the controller asks of whoever prepares a gang, brings its data and code, and has the engine start it."""

from __future__ import annotations

from typing import Protocol

from shared.jobs import Job


class Starter(Protocol):
    """Prepares gangs and has the engine start them."""

    async def start(self, job: Job) -> None:
        """Start the job's present attempt; raises StartRefusedError."""
        ...

    async def save(self, gang: str) -> None:
        """Bring away what the gang wrote."""
        ...

    def is_unsaved(self, gang: str) -> bool:
        """Whether the gang may have written something that has to be brought away."""
        ...

    def save_problem(self, gang: str) -> str:
        """What of it is lost nevertheless; empty where nothing is."""
        ...

    def abandon(self, gang: str) -> None:
        """Do not start the gang, where it is still being prepared."""
        ...

    def abandon_all(self) -> None:
        """Start nothing that is still being prepared, and save nothing more."""
        ...
