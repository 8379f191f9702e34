"""Who holds a user's job name, by the record itself: the last event on the name's subject.

A name is claimed in one atomic batch with the submission, and released in one with the deletion. A server that is
killed, or loses its power, while it writes such a batch may be left with the first half: a claim for a job that does
not exist, or a released name of a job that is not deleted yet. Neither may be in anybody's way, so a claim counts only
while its job exists, and only the holder's deletion releases.
"""

from __future__ import annotations

from dataclasses import dataclass

from services.submitter.domain import transitions
from services.submitter.domain.naming import NameTakenError
from shared.bus import Bus, Claim
from shared.bus.publish import name_subject
from shared.documents.fields import shown
from shared.events import Event, NameClaimed
from shared.jobs import Job
from shared.readmodel import JobReadModel


@dataclass(frozen=True, slots=True)
class Names:
    """Names of jobs, by the user who gave them."""

    bus: Bus
    jobs: JobReadModel

    async def holder(self, owner: str, name: str) -> str | None:
        """Id of the job that claimed the name last and has not released it."""
        return (await self._standing(owner, name))[0]

    async def claim(self, submitted: Event, owner: str, name: str) -> Claim:
        """The claim for a job that is being submitted; raises NameTakenError naming the job that has it."""
        holder, sequence = await self._standing(owner, name)
        if holder is not None and await self._exists(holder):
            raise NameTakenError(
                f"you have a job called {shown(name)} already: {holder}; delete it or choose another name"
            )
        return Claim(transitions.name_claim(submitted, name), owner, name, sequence)

    async def release(self, job: Job, released: Event) -> tuple[Claim, ...]:
        """What frees the name together with the job's deletion; nothing where the job holds it no more."""
        holder, sequence = await self._standing(job.owner, job.name)
        return (Claim(released, job.owner, job.name, sequence),) if holder == job.id else ()

    async def _standing(self, owner: str, name: str) -> tuple[str | None, int]:
        """The holder, and the sequence that the next claim or release must follow."""
        last = await self.bus.history.last_event(name_subject(owner, name))
        if last is None:
            return None, 0
        return (last.event.subject if isinstance(last.event.data, NameClaimed) else None), last.sequence

    async def _exists(self, job: str) -> bool:
        known = self.jobs.get(job) is not None or await self.bus.history.last_state(job) is not None
        return known or bool((await self.bus.history.archived(job))[0])
