"""Answers `tm.agent.<machine>.probe`: measures this machine in a child process and replies for every node asked about.

A measurement loads every CPU for a fraction of a second, so there is never more than one at a time: whoever asks while
one is under way shares the next, which begins after the question came. So an answer is never older than its question,
and many jobs that are diagnosed at once cost two measurements and not many. A measurement that fails or takes longer
than `MEASURE_S` gives an answer without nodes. Directories that a request names are looked at for that request alone.

For tests, `TRAINMASTER_PROBE_FAULTS` of the agent makes nodes look bad: `<node>=<fault>` with commas between, where a
fault is `checksum` (its CPUs compute wrong), `disk` (no room), or `silent` (no measurement).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any, Final

from shared.agent_facts import Port
from shared.agent_wire import (
    MalformedAnswerError,
    Measurement,
    decode_probe_request,
    encode_probe_answer,
    measurement_of,
    places_of_request,
)

MEASURE_S: Final = 15.0
PLACES_S: Final = 8.0
END_S: Final = 2.0
PROBE: Final = Path(__file__).with_name("probe")
_log = logging.getLogger(__name__)

Measure = Callable[[], Awaitable[Measurement | None]]
Fault = Callable[[Measurement], Measurement | None]
PlacesLook = Callable[[Mapping[str, bool]], Coroutine[Any, Any, Mapping[str, tuple[str, ...]]]]

FAULTS: Final[Mapping[str, Fault]] = {
    "checksum": lambda sound: replace(sound, checksums={"00000bad": sound.cpus}),
    "disk": lambda sound: replace(sound, disk_free_bytes=0),
    "silent": lambda _sound: None,
}


class Prober:
    """Measures on demand; `faults` are the nodes that a test wants to look bad.

    `look` looks at directories that jobs mount. Each answer says when the question was heard, and when it was sent.
    """

    def __init__(
        self, measure: Measure, faults: Mapping[str, Fault], look: PlacesLook, unix_ms: Callable[[], int] | None = None
    ) -> None:
        self._measure = measure
        self._faults = faults
        self._look = look
        self._unix_ms = unix_ms or _unix_ms
        self._ports: dict[str, tuple[Mapping[str, int], int]] = {}
        self._turn = asyncio.Lock()
        self._next: asyncio.Task[Measurement | None] | None = None

    async def answer(self, request: bytes) -> bytes:
        """The answer to a request; raises MalformedAnswerError where it is none."""
        heard_unix_ms = self._unix_ms()
        nodes, places = decode_probe_request(request), places_of_request(request)
        looking = self._look(places) if places else _nothing()
        measured, seen = await asyncio.gather(self._shared(), looking)
        if measured and places:
            measured = with_places(measured, seen)
        if measured:
            measured = replace(measured, heard_unix_ms=heard_unix_ms, sent_unix_ms=self._unix_ms())
        found = {node: self._fault(node)(measured) for node in nodes} if measured else {}
        return encode_probe_answer({node: each for node, each in found.items() if each is not None})

    async def _shared(self) -> Measurement | None:
        """The measurement that has not begun yet."""
        if self._next is None:
            self._next = asyncio.create_task(self._in_turn())
        return await asyncio.shield(self._next)

    async def _in_turn(self) -> Measurement | None:
        async with self._turn:
            self._next = None
            measured = await self._measure()
            if measured is not None:
                measured = replace(measured, ports=tuple(map(self._grown, measured.ports, repeat(measured.unix_ms))))
            return measured

    def _grown(self, port: Port, unix_ms: int) -> Port:
        """The port with how far its counters of errors have grown since the last look, where there was one."""
        before, at_ms = self._ports.get(port.name, ({}, unix_ms))
        self._ports[port.name] = (port.errors, unix_ms)
        return replace(port, grown=grown(before, port.errors), grown_s=max(unix_ms - at_ms, 0) / 1000)

    def _fault(self, node: str) -> Fault:
        return self._faults.get(node, lambda sound: sound)


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000


async def _nothing() -> Mapping[str, tuple[str, ...]]:
    """What there is to say of no directories."""
    return {}


def grown(before: Mapping[str, int], now: Mapping[str, int]) -> dict[str, int]:
    """By how much each counter is higher; one that is lower was set back, and says nothing."""
    return {name: value - before[name] for name, value in now.items() if name in before and value > before[name]}


def read_faults(text: str) -> dict[str, Fault]:
    """The faults of `node=fault,node=fault`; what names no known fault is logged and left out."""
    pairs = [entry.partition("=") for entry in text.split(",") if entry.strip()]
    unknown = [fault for _node, _, fault in pairs if fault.strip() not in FAULTS]
    if unknown:
        _log.warning("unknown probe faults %s; there are %s", ", ".join(unknown), ", ".join(FAULTS))
    return {node.strip(): FAULTS[fault.strip()] for node, _, fault in pairs if fault.strip() in FAULTS}


async def measure_machine(home: Path, names: Iterable[str] = ()) -> Measurement | None:
    """What the probe says of this machine, and of names that must have addresses.

    None, and the reason in the log, where it fails.
    """
    try:
        return measurement_of(await _told(str(home), *names, within_s=MEASURE_S))
    except (TimeoutError, ValueError, MalformedAnswerError) as error:
        _log.warning("the probe failed: %s", error or f"no result within {MEASURE_S:g} s")
        return None


async def look_at_places(places: Mapping[str, bool]) -> Mapping[str, tuple[str, ...]]:
    """Which of the directories are `unreachable` or `read_only`; all are unreachable where the look takes too long."""
    return await _looked("places", places)


async def look_at_mounts(root: Path, places: Mapping[str, bool]) -> Mapping[str, tuple[str, ...]]:
    """The same of directories of a node that this container has below `root`."""
    return await _looked("mounts", places, str(root))


async def _looked(how: str, places: Mapping[str, bool], *where: str) -> Mapping[str, tuple[str, ...]]:
    try:
        told = await _told(how, *where, json.dumps(dict(places)), within_s=PLACES_S)
        return {name: tuple(str(place) for place in told[name]) for name in ("unreachable", "read_only")}
    except (TimeoutError, ValueError, KeyError, TypeError):
        return {"unreachable": tuple(places)}


def with_places(measured: Measurement, found: Mapping[str, tuple[str, ...]]) -> Measurement:
    """The measurement with what was found of directories."""
    return replace(
        measured,
        read_only=(*measured.read_only, *found.get("read_only", ())),
        unreachable=found.get("unreachable", ()),
        unlooked=found.get("unlooked", ()),
    )


async def _told(*arguments: str, within_s: float) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(PROBE),
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(within_s):
            output, _ = await process.communicate()
        return json.loads(output)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """End the probe with all its children, however it went."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # A process that waits for a file server that is gone cannot be ended; nobody waits for it.
        with suppress(TimeoutError):
            async with asyncio.timeout(END_S):
                await process.wait()
