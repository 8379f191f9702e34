"""Who does what in a silent gang: ranks with the same stack are one group, and those outside of the crowd are named.

In most hangs all ranks but a few wait in the same collective, and the few are the cause. So identical stacks are folded
into groups, the largest first. Where more than half of the ranks are in one group, every other rank is an outlier; so
is, in any case, a rank that has ended while others have not, and one that sleeps uninterruptibly in the kernel, as a
process does that waits for a file system.

The stack of a rank is that of its main thread. A replica whose processes torchrun did not start is one rank: the
outermost of its Python processes, or else the innermost process that there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from shared.agent_evidence import Process, ReplicaLook

MOST_NAMED: Final = 10
_UNINTERRUPTIBLE: Final = "D"
_STATES: Final = {"R": "running", "S": "sleeping", "D": "in uninterruptible sleep", "T": "stopped", "Z": "ended"}
_LIBRARIES: Final = ("/site-packages/", "/dist-packages/", "/lib/python", "<frozen")


@dataclass(frozen=True, slots=True)
class RankLook:
    """One rank: its main thread's frames, the innermost first, or in `doing` what else is known of it."""

    name: str
    frames: tuple[str, ...] = ()
    doing: str = ""
    suspicious: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """Equal for ranks that do the same."""
        return self.frames or (self.doing,)

    @property
    def shown(self) -> str:
        """What it does, to follow its name: `in barrier (train.py:12)`."""
        return where(self.frames) if self.frames else self.doing


@dataclass(frozen=True, slots=True)
class Group:
    """Ranks that do the same."""

    ranks: tuple[str, ...]
    doing: str
    frames: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """The groups, the largest first, the ranks that stand out, and all of it in one sentence."""

    groups: tuple[Group, ...]
    outliers: tuple[str, ...]
    summary: str


def ranks_of(look: ReplicaLook) -> tuple[RankLook, ...]:
    """The ranks in a replica."""
    name = f"{look.role}-{look.index}"
    workers = [process for process in look.processes if process.rank is not None]
    if workers:
        return tuple(_rank(f"rank {process.rank} ({name})", process) for process in workers)
    main = _main_process(look.processes)
    if main is None:
        return (RankLook(name, doing=look.problem or "not seen", suspicious=True),)
    return (_rank(name, main),)


def fold(ranks: Iterable[RankLook]) -> Folded:
    """Put ranks that do the same together and say who stands out."""
    by_key: dict[tuple[str, ...], list[RankLook]] = {}
    for rank in ranks:
        by_key.setdefault(rank.key, []).append(rank)
    parts = sorted(by_key.values(), key=len, reverse=True)
    total = sum(map(len, parts))
    crowd = parts[0] if parts and len(parts[0]) * 2 > total else []
    outliers = [rank for part in parts for rank in part if rank.suspicious or (crowd and part is not crowd)]
    groups = tuple(Group(tuple(rank.name for rank in part), part[0].shown, part[0].frames) for part in parts)
    return Folded(groups, tuple(f"{rank.name} is {rank.shown}" for rank in outliers), _summary(groups, outliers, total))


def where(frames: Sequence[str]) -> str:
    """`in recv (socket.py:5)`, with the nearest frame of the user's own code where the innermost is a library's."""
    own = next((frame for frame in frames if not any(library in frame for library in _LIBRARIES)), None)
    innermost = f"in {_short(frames[0])}"
    return innermost if own is None or own == frames[0] else f"{innermost}, called in {_short(own)}"


def _summary(groups: tuple[Group, ...], outliers: Sequence[RankLook], total: int) -> str:
    if not groups:
        return "no rank could be looked at"
    if len(groups) == 1:
        return f"all {total} ranks are {groups[0].doing}" if total > 1 else f"{groups[0].ranks[0]} is {groups[0].doing}"
    named = {rank.name for rank in outliers}
    crowds = [group for group in groups if not named.issuperset(group.ranks)]
    told = [_of_group(group, total) for group in crowds[:MOST_NAMED]]
    told += [f"{rank.name} is {rank.shown}" for rank in outliers[:MOST_NAMED]]
    more = len(crowds) + len(outliers) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more > 0 else "")


def _of_group(group: Group, total: int) -> str:
    count = len(group.ranks)
    return f"{count} of {total} ranks {'is' if count == 1 else 'are'} {group.doing}"


def _rank(name: str, process: Process) -> RankLook:
    sleeps = f" in {process.waits_in}" if process.waits_in else ""
    stuck = process.state == _UNINTERRUPTIBLE
    if process.threads and not stuck:
        return RankLook(name, process.threads[0].frames)
    state = f"{_STATES.get(process.state, process.state)}{sleeps}"
    doing = f"{state} ({_command(process)})"
    if process.threads:
        doing = f"{state}, {where(process.threads[0].frames)}" if process.threads[0].frames else doing
    return RankLook(name, doing=doing, suspicious=stuck)


def _main_process(processes: Sequence[Process]) -> Process | None:
    with_stack = [process for process in processes if process.threads]
    pids = {process.pid for process in with_stack}
    outermost = [process for process in with_stack if process.parent not in pids]
    return next(iter(outermost), processes[-1] if processes else None)


def _command(process: Process) -> str:
    return process.command.split(" ")[0].rpartition("/")[2][:40]


def _short(frame: str) -> str:
    """`recv (socket.py:5)` of `recv (/usr/lib/python3/socket.py:5)`."""
    function, _, place = frame.rpartition(" (")
    return f"{function} ({place.rpartition('/')[2]}" if function else frame
