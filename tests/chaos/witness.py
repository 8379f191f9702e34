"""The witness: reads what happened from the raw streams and from what the jobs wrote, and shares no code with the
platform's own reading of them.

`read_stories` takes every message of the streams JOBS and ARCHIVE with plain nats-py; the checks below look at JSON, at
the accounts that the replicas kept on their mount (see `fates`), and at the machine itself. Each check gives the
complaints that it has, as sentences.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import nats
import zstandard
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, DeliverPolicy

from tests.chaos.fates import Fate
from tests.support.platform import Platform

_ENDS: Final = {"job.succeeded": "Succeeded", "job.failed": "Failed", "job.stopped": "Stopped"}
_FETCH: Final = 500


@dataclass
class Story:
    """What the stream says of one job, in its order."""

    states: list[tuple[str, int]] = field(default_factory=list)
    of_memory: list[tuple[str, str]] = field(default_factory=list)
    """Of each end of an attempt and each decision: where it is told, and what it says about memory."""

    def of_attempt(self, kind: str) -> Counter[int]:
        """How often this kind of event is told of each attempt."""
        return Counter(attempt for told, attempt in self.states if told == kind)

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _attempt in self.states]


def read_stories(home: Path) -> dict[str, Story]:
    """Every job's state events, in the order of their sequences, wherever they are now."""
    stories: defaultdict[str, Story] = defaultdict(Story)
    for subject, body in asyncio.run(_events(home)):
        event = json.loads(body)
        if ".state." in subject:
            kind = event["type"].removeprefix("trainmaster.").removesuffix(".v1")
            stories[event["subject"]].states.append((kind, event.get("attempt", 0)))
            stories[event["subject"]].of_memory += _about_memory(kind, event)
    return stories


def archived_jobs(home: Path) -> set[str]:
    """Jobs of which ARCHIVE has something."""
    return {message.subject.removeprefix("tm.archive.") for message in asyncio.run(_all(home, "ARCHIVE"))}


async def _events(home: Path) -> list[tuple[str, bytes]]:
    """Subject and body of each event; one that JOBS and ARCHIVE tell differently is there twice."""
    found = {(_sequence(each), each.subject, each.data) for each in await _all(home, "JOBS", "tm.job.>")}
    for bundle in await _all(home, "ARCHIVE"):
        for line in map(json.loads, zstandard.ZstdDecompressor().decompress(bundle.data).splitlines()):
            found.add((line["sequence"], line["subject"], line["text"].encode()))
    return [(subject, body) for _sequence_in_jobs, subject, body in sorted(found)]


def _sequence(message: Msg) -> int:
    return message.metadata.sequence.stream


def _about_memory(kind: str, event: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    where = f"{kind} of attempt {event.get('attempt')}"
    if kind == "attempt.ended" and event["data"].get("exit"):
        yield where, event["data"]["exit"]["outOfMemory"]
    if kind == "retry.decided":
        yield where, "certain" if event["data"]["rootCause"] == "out-of-memory" else "none"


async def _all(home: Path, stream: str, subjects: str = ">") -> list[Msg]:
    url = json.loads((home / "platform.json").read_text())["nats_url"]
    password = json.loads((home / "config" / "secrets.json").read_text())["nats_passwords"]["platform"]
    connection = await nats.connect(url, user="platform", password=password, inbox_prefix="_INBOX_platform")
    try:
        config = ConsumerConfig(deliver_policy=DeliverPolicy.ALL, filter_subject=subjects)
        reading = await connection.jetstream().pull_subscribe(subjects, stream=stream, config=config)
        found: list[Msg] = []
        while (await reading.consumer_info()).num_pending:
            with suppress(TimeoutError):
                for message in await reading.fetch(_FETCH, timeout=2):
                    found.append(message)
                    await message.ack()
        return found
    finally:
        await connection.close()


def complaints_about_story(name: str, fate: Fate, story: Story) -> Iterator[str]:
    """Exactly one right end, as the last of the job's events, after as many attempts as the policy says."""
    ends = [_ENDS[kind] for kind in story.kinds if kind in _ENDS]
    if ends != [fate.end]:
        yield f"{name} ended as {ends or 'nothing'} instead of once as {fate.end}: {story.kinds}"
    elif story.kinds[-1] not in _ENDS:
        yield f"{name} has events after its end: {story.kinds}"
    attempts = 1 + story.kinds.count("job.queued")
    if attempts != fate.attempts:
        yield f"{name} had {attempts} attempts instead of {fate.attempts}"
    for kind in ("job.placed", "job.started", "attempt.ended", "retry.decided", "job.admitted"):
        twice = [attempt for attempt, count in story.of_attempt(kind).items() if count > 1]
        if twice:
            yield f"{name} was told {kind} more than once of attempt {twice}"
    if story.of_attempt("job.placed").keys() - story.of_attempt("attempt.ended").keys():
        yield f"{name} has an attempt that was placed and never ended"


def complaints_about_memory(name: str, fate: Fate, story: Story) -> Iterator[str]:
    """A kill for want of memory is told of every attempt that died of one, for certain, and of no other."""
    wanted = "certain" if fate.out_of_memory else "none"
    for where, told in story.of_memory:
        if told != wanted:
            yield f"{name}: {where} says of memory: {told}, instead of {wanted}"
    if fate.out_of_memory and not story.of_memory:
        yield f"{name} was killed for its memory, and no event tells of memory"


@dataclass(frozen=True)
class Run:
    """One replica of one attempt, as it wrote itself."""

    attempt: int
    rank: int
    starts: tuple[int, ...]
    ends: tuple[int, ...]


def runs_of(scratch: Path, name: str) -> list[Run]:
    """What the replicas of a job wrote about themselves."""
    return [_run(file, name) for file in scratch.glob(f"{name}.*.times")]


def _run(file: Path, name: str) -> Run:
    attempt, rank = file.name.removeprefix(f"{name}.").removesuffix(".times").split(".")
    noted = [line.split() for line in file.read_text().splitlines()]
    times = {what: tuple(int(at) for told, at in noted if told == what) for what in ("start", "end")}
    return Run(int(attempt), int(rank), times["start"], times["end"])


def complaints_about_runs(name: str, fate: Fate, runs: list[Run]) -> Iterator[str]:
    """Each replica of each attempt ran once, from its beginning to its end, and no two attempts at the same time."""
    for run in runs:
        if len(run.starts) != 1:
            yield f"{name} attempt {run.attempt} replica {run.rank} was started {len(run.starts)} times"
        if len(run.ends) != 1:
            yield f"{name} attempt {run.attempt} replica {run.rank} wrote {len(run.ends)} ends"
    if not fate.stopped:
        wanted = {(attempt, rank) for attempt in range(1, fate.attempts + 1) for rank in range(fate.replicas)}
        ran = {(run.attempt, run.rank) for run in runs}
        if ran != wanted:
            yield f"{name} ran as {sorted(ran)} (attempt, rank) instead of {sorted(wanted)}"
    spans = sorted((run.attempt, min(run.starts), max((*run.ends, *run.starts))) for run in runs if run.starts)
    for earlier in spans:
        for later in spans:
            if earlier[0] < later[0] and later[1] < earlier[2]:
                yield f"{name} attempt {later[0]} began while attempt {earlier[0]} was running"


def complaints_about_logs(platform: Platform, name: str, job: str, fate: Fate, runs: list[Run]) -> Iterator[str]:
    """Every stored log is, byte for byte, what the replica printed.

    Where a replica is ended from outside, its last words may have reached only one of log and account.
    """
    for run in runs:
        printed = (platform.scratch / f"{name}.{run.attempt}.{run.rank}.log").read_bytes()
        stored = platform.log(job, attempt=run.attempt, index=run.rank)
        cut_short = not fate.whole_log and (stored.startswith(printed) or printed.startswith(stored))
        if stored != printed and not cut_short:
            yield f"{name} attempt {run.attempt} replica {run.rank}: {len(stored)} bytes stored, {len(printed)} printed"


def complaints_about_machine(platform: Platform, jobs: Mapping[str, str]) -> list[str]:
    """No process, mount, directory, memory group or reservation of any job is left."""
    processes = _processes_of(set(jobs.values()))
    mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(platform.home) in line]
    directories = [path.name for path in (platform.home / "gangs").glob("tj-*")]
    return [
        *(f"process {pid} of {job} is left" for pid, job in processes),
        *(f"mount {mount} is left" for mount in mounts if any(job in mount for job in jobs.values())),
        *(f"directory {name} is left" for name in directories),
        *(f"memory group {name} is left" for name in _memory_groups_of(set(jobs.values()))),
        *_reservations(platform),
    ]


def _memory_groups_of(jobs: set[str]) -> list[str]:
    groups = Path("/sys/fs/cgroup").glob("**/trainmaster/tj-*")
    return [group.name for group in groups if "-".join(group.name.split("-")[:2]) in jobs]


def _processes_of(jobs: set[str]) -> Iterator[tuple[int, str]]:
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            variables = environ.read_bytes().split(b"\0")
        except OSError:
            continue
        for variable in variables:
            if variable.startswith(b"TM_JOB_ID=") and variable[10:].decode() in jobs:
                yield int(environ.parent.name), variable[10:].decode()


def _reservations(platform: Platform) -> Iterator[str]:
    with platform.http as http:
        nodes: list[dict[str, Any]] = http.get("/v1/nodes").json()["items"]
    for node in nodes:
        free = node["status"]["free"]
        if any(node["spec"][resource] != amount for resource, amount in free.items()):
            yield f"node {node['metadata']['name']} has {free} free of {node['spec']}"
