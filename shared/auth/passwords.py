"""Passwords as argon2id hashes, at OWASP's small setting: 19 MiB, two passes, one lane.

Hashing takes tens of milliseconds and 19 MiB, so it runs in a thread of its own, one at a time: a flood of logins waits
instead of eating the machine, and the memory, which the allocator keeps for each thread that ever had it, is kept once.
A name that nobody has costs the same time as a wrong password.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import argon2
from argon2.exceptions import InvalidHashError, VerificationError

MEMORY_KIB: Final = 19 * 1024
PASSES: Final = 2
MAX_PASSWORD_CHARS: Final = 256


class Passwords:
    """Hashes and checks passwords."""

    def __init__(self) -> None:
        self._hasher = argon2.PasswordHasher(time_cost=PASSES, memory_cost=MEMORY_KIB, parallelism=1)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="passwords")
        self._nobody: str | None = None

    async def hash(self, password: str) -> str:
        """The text to keep instead of the password."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._hasher.hash, password)

    async def verify(self, kept: str | None, password: str) -> bool:
        """Whether the password is the one whose hash is kept; None stands for a user who does not exist."""
        if len(password) > MAX_PASSWORD_CHARS:
            return False
        if self._nobody is None:
            self._nobody = await self.hash("nobody has this password")
        loop = asyncio.get_running_loop()
        matches = await loop.run_in_executor(self._thread, self._matches, kept or self._nobody, password)
        return matches and kept is not None

    def outdated(self, kept: str) -> bool:
        """Whether the hash was made with other settings and should be made anew at the next login."""
        return self._hasher.check_needs_rehash(kept)

    def _matches(self, kept: str, password: str) -> bool:
        try:
            return self._hasher.verify(kept, password)
        except (VerificationError, InvalidHashError):
            return False
