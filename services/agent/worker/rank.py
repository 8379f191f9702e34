"""The process of one device of one node: forked by `lead`, makes one test after the other, a JSON line each.

It ends with the process that forked it. A test that fails gives a problem, and the process goes on; but where a group
failed it is `spent`, since what is left of the group would spoil the next, and is ended from outside. So is one that
hangs, since nobody can tell what it is doing.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import queue
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from . import tcp

_DIE_WITH_PARENT = 1
_ENDS_EARLIER_S = 1.0
_IN_GROUPS = frozenset({"exchange", "local", "link", "gang"})

Result = dict[str, Any]
Asked = Mapping[str, Any]


@dataclass
class Rank:
    """What this process is: the node, its number there, the node's devices, and where others reach it."""

    node: str
    index: int
    devices: Sequence[str]
    host: str
    with_torch: bool
    _kept: dict[str, Any] = field(default_factory=dict)

    def answer(self, asked: Asked) -> Result:
        """What comes of one test; whatever goes wrong in it is told, and not raised."""
        try:
            return _TESTS[asked["test"]](self, asked)
        except (OSError, RuntimeError, ValueError, AssertionError, queue.Empty, MemoryError) as error:
            return {"problem": _first_line(error), "spent": asked["test"] in _IN_GROUPS}

    @cached_property
    def server(self) -> tcp.Server:
        """Lets other nodes in."""
        return tcp.Server(self.host)

    @cached_property
    def store(self) -> Any:
        """Where groups find each other whose first member is this rank."""
        return _part("groups").Store(self.host)

    @cached_property
    def device(self) -> Any:
        """The device, opened."""
        return _part("devices").open_device(self.devices, self.index)

    @property
    def name(self) -> str:
        """How reports call the device."""
        return self.devices[self.index]

    def of_device(self, result: Result) -> Result:
        """The answer with what was found of this device."""
        return {"devices": {self.name: result}}

    def meeting(self, asked: Asked, place: int, size: int, *, rail: int = 0) -> Any:
        """Where the members of a group find each other; the group gives up before whoever waits for it does."""
        first = asked["peers"][0]
        within_s = max(asked["limit_s"] - _ENDS_EARLIER_S, _ENDS_EARLIER_S)
        key = f"{asked['round']}/{rail}"
        part = _part("groups")
        return part.Meeting(first["host"], first["store"], key, place, size, within_s, asked["work_s"])


def run(rank: Rank, reading: int, writing: int) -> None:
    """Answer until nobody asks any more."""
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    with os.fdopen(reading, "rb") as questions, os.fdopen(writing, "wb") as answers:
        for line in questions:
            asked = json.loads(line)
            answers.write(json.dumps({"id": asked["id"], **rank.answer(asked)}).encode() + b"\n")
            answers.flush()
    os._exit(0)  # threads may still be waiting for peers


def _begin(rank: Rank, _asked: Asked) -> Result:
    """Open the device, so that no later test has to wait for that."""
    if not rank.with_torch:
        return {}
    return {"about": _part("devices").versions()} if rank.device else {}


def _serve(rank: Rank, _asked: Asked) -> Result:
    served = {"node": rank.node, "host": rank.host, "port": rank.server.port, "token": rank.server.token}
    return {"served": {**served, "store": rank.store.port if rank.with_torch else 0}}


def _compute(rank: Rank, asked: Asked) -> Result:
    return rank.of_device(_part("kernels").compute(rank.device, asked["work_s"], asked["enough"]))


def _memory(rank: Rank, asked: Asked) -> Result:
    if not rank.with_torch:
        return {"devices": {rank.name: {"figures": tcp.copying()}}}
    return rank.of_device(_part("kernels").memory(rank.device, asked["work_s"], asked["enough"]))


def _host_device(rank: Rank, asked: Asked) -> Result:
    return rank.of_device(_part("kernels").host_device(rank.device, asked["work_s"], asked["enough"]))


def _exchange(rank: Rank, asked: Asked) -> Result:
    """A pair of nodes: the ranks with the same number on both, each a rail of its own."""
    nodes = [peer["node"] for peer in asked["peers"]]
    place = nodes.index(rank.node)
    other = asked["peers"][1 - place]
    if asked["transport"] == "tcp":
        return {"figures": tcp.exchange(other)} if place == 0 else {}
    return dict(_part("groups").pair(rank.meeting(asked, place, 2, rail=rank.index), rank.device, asked["enough"]))


def _local(rank: Rank, asked: Asked) -> Result:
    """All devices of this node together."""
    meeting = rank.meeting(asked, rank.index, len(rank.devices))
    return dict(_part("groups").gang(meeting, rank.device, asked["sizes"], asked["enough"]))


def _link(rank: Rank, asked: Asked) -> Result:
    """Two devices of this node."""
    place = asked["ranks"].index(rank.index)
    found = _part("groups").pair(rank.meeting(asked, place, 2), rank.device, asked["enough"])
    return dict(found)


def _gang(rank: Rank, asked: Asked) -> Result:
    """All nodes of the gang, each with as many ranks as take part."""
    nodes = [peer["node"] for peer in asked["peers"]]
    place, each = nodes.index(rank.node), asked["ranks_each"]
    if asked["transport"] == "tcp":
        return tcp.reduce_over(rank.server, asked["peers"], rank.node, asked["round"])
    meeting = rank.meeting(asked, place * each + rank.index, len(nodes) * each)
    return dict(_part("groups").gang(meeting, rank.device, asked["sizes"], asked["enough"]))


_TESTS = {
    "begin": _begin,
    "serve": _serve,
    "compute": _compute,
    "memory": _memory,
    "hostDevice": _host_device,
    "exchange": _exchange,
    "local": _local,
    "link": _link,
    "gang": _gang,
}


def _part(name: str) -> Any:
    """A module that needs PyTorch."""
    return importlib.import_module(f".{name}", __package__)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
