"""A cluster whose gangs come, run and end by a clock of its own: the planner over many cycles."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from services.scheduler.domain.gang import Gang, Pool
from services.scheduler.domain.planning.plan import Plan, plan
from services.scheduler.domain.planning.running import Running
from services.scheduler.domain.planning.state import State
from tests.support.cluster import NOW, PUBLIC


class ClusterLife:
    """Submit, let time pass, look. Gangs run for as long as `runs_s` says, or until they are told to end."""

    def __init__(self, nodes=(), pools: tuple[Pool, ...] = (PUBLIC,)) -> None:
        self.state = State(nodes, {pool.name: pool for pool in pools})
        self.now: datetime = NOW
        self.gangs: dict[str, Gang] = {}
        self.runs_s: dict[str, float] = {}
        self.started_at: dict[str, datetime] = {}
        self.evicted: list[str] = []
        self.last = Plan()

    def submit(self, gang: Gang, runs_s: float = 1e9) -> None:
        """Let a gang wait from now on."""
        gang = replace(gang, sequence=gang.sequence if gang.sequence > 1 else len(self.gangs) + 2, since=self.now)
        self.gangs[gang.job] = gang
        self.runs_s[gang.job] = runs_s
        self.state.wait(gang)

    def cycle(self) -> Plan:
        """One plan, carried out."""
        self.last = plan(self.state.snapshot(), self.now)
        self.state.note(self.last)
        for start in self.last.starts:
            gang = start.gang
            ends_by = self.now + timedelta(seconds=gang.longest_s) if gang.longest_s is not None else None
            self.state.wait_no_more(gang.job)
            self.state.hold(
                Running(
                    f"{gang.job}-{gang.attempt}",
                    gang.job,
                    gang.priority,
                    gang.project,
                    gang.owner,
                    gang.roles,
                    self.now,
                    ends_by,
                    preemptible=gang.job.startswith("tj-spot"),
                ),
                start.seats,
            )
            self.started_at[gang.job] = self.now
        for eviction in self.last.evictions:
            victim = replace(
                eviction.victim, ending=True, ends_by=self.now + timedelta(seconds=eviction.victim.grace_s)
            )
            self.state.hold(victim, ())
            self.evicted.append(victim.job)
        return self.last

    def end(self, job: str) -> None:
        """The end of this job's gang is confirmed; one that was evicted waits again."""
        running = next((each for each in self.state.running.values() if each.job == job), None)
        self.state.release(job)
        if running is not None and running.ending:
            gang = self.gangs[job]
            self.gangs[job] = replace(gang, attempt=gang.attempt + 1, since=self.now)
            self.state.wait(self.gangs[job])

    def pass_time(self, seconds: float) -> None:
        """Let gangs end whose time is over, and plan."""
        self.now += timedelta(seconds=seconds)
        for running in list(self.state.running.values()):
            over = (self.now - running.since).total_seconds() >= self.runs_s[running.job]
            if over or (running.ending and running.ends_by is not None and running.ends_by <= self.now):
                self.end(running.job)
        self.cycle()

    @property
    def running(self) -> set[str]:
        """Jobs that run."""
        return {running.job for running in self.state.running.values()}
