"""The evidence that the platform took of silent jobs: a list of bundles, and one bundle as the API has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote

from trainmaster.client import Client
from trainmaster.decoding import Document, Fields
from trainmaster.errors import InputError

PATH = "/v1/incidents/evidence"


@dataclass(frozen=True, slots=True)
class Taken:
    """One bundle: of which incident of which attempt; without a digest it could not be kept."""

    attempt: int
    rule: str
    digest: str
    at: datetime | None


def taken(client: Client, job: str) -> tuple[Taken, ...]:
    """What was taken of the job, the latest last."""
    answer = Fields.of(client.read(f"{PATH}/{quote(job, safe='')}"))
    return tuple(
        Taken(each.integer("attempt"), each.text("rule"), each.text("digest"), each.time("at"))
        for each in answer.each("items")
    )


def bundle(client: Client, job: str, digest: str) -> Document:
    """All of it."""
    return client.read(f"{PATH}/{quote(job, safe='')}/{quote(digest, safe=':')}")


def chosen(found: tuple[Taken, ...], job: str, attempt: int | None) -> Taken:
    """The latest that was kept, of this attempt where one is given; raises InputError where there is none."""
    kept = [each for each in found if each.digest and attempt in (None, each.attempt)]
    if not kept:
        of = f"attempt {attempt} of {job}" if attempt is not None else job
        raise InputError(f"no evidence was taken of {of}; it is taken when a job with hangDetection falls silent")
    return kept[-1]
