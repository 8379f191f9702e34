"""Deep tests of GPUs: NVIDIA's own, `dcgmi diag -r LEVEL`, where DCGM is installed on the machine.

They run for minutes to hours as a child of the agent. Only the GPUs that were asked about are tested; DCGM calls them
by numbers, which its list of devices gives for the driver's ids. Its report is JSON, of two shapes by DCGM's version;
what failed in it is the problem of the device that it names, or of all where it names none. A diagnosis that is over
ends its tests: DCGM stops them when its command is asked to end.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from services.agent.grounds import Grounds
from shared.diagnosis_wire import DeviceResult, TestAnswer, TestRequest

COMMAND: Final = "dcgmi"
MISSING: Final = "DCGM is not installed; install NVIDIA's datacenter-gpu-manager, which brings the command dcgmi"
LEVELS: Final = range(1, 5)
LIST_S: Final = 30.0
END_S: Final = 5.0
_ROW: Final = re.compile(r"^\|\s*(\d+)\s*\|")
_DEVICE: Final = re.compile(r"Device UUID:\s*(GPU-[0-9a-fA-F-]+)")


class DeepTests:
    """Runs them; `find` tells where the command is."""

    def __init__(self, grounds: Grounds, find: Callable[[str], str | None] = shutil.which) -> None:
        self._grounds = grounds
        self._find = find
        self._gpus: dict[str, frozenset[str]] = {}
        self._excuses: dict[str, str] = {}
        self._running: defaultdict[str, set[asyncio.subprocess.Process]] = defaultdict(set)

    async def answer(self, request: TestRequest) -> TestAnswer:
        """What the tests give, or why there are none."""
        command = self._find(COMMAND)
        if command is None:
            return TestAnswer(problem=MISSING)
        if request.level not in LEVELS:
            return TestAnswer(about={COMMAND: command})
        session = request.session
        excuse = self._grounds.refusal(request.devices)
        if excuse:
            return TestAnswer(excuse=excuse)
        self._gpus[session] = frozenset(request.devices)
        try:
            async with asyncio.timeout(request.limit_s):
                answer = await self._tested(command, request)
            excuse = self._excuses.get(session, "")
            return TestAnswer(excuse=excuse) if excuse else answer
        except TimeoutError:
            return TestAnswer(problem=f"DCGM's tests of level {request.level} took longer than {request.limit_s:g} s")
        except OSError as error:
            return TestAnswer(problem=f"{command}: {error}")
        finally:
            self._gpus.pop(session, None)
            self._excuses.pop(session, None)

    async def withdraw(self) -> None:
        """End tests on GPUs that others need."""
        for session, gpus in list(self._gpus.items()):
            excuse = self._grounds.refusal(gpus)
            if excuse:
                self._excuses[session] = excuse
                await self.cancel(session)

    async def cancel(self, session: str) -> None:
        """End the tests of a session."""
        await asyncio.gather(*(_end(process) for process in self._running.pop(session, set())))

    async def close(self) -> None:
        """End all."""
        await asyncio.gather(*(self.cancel(session) for session in list(self._running)))

    async def _tested(self, command: str, request: TestRequest) -> TestAnswer:
        numbers = numbers_of(await self._told(request.session, command, "discovery", "-l"))
        unknown = [device for device in request.devices if device not in numbers]
        if unknown:
            return TestAnswer(problem=f"DCGM does not list {', '.join(unknown)}")
        asked = {str(numbers[device]): device for device in request.devices}
        report = await self._told(
            request.session, command, "diag", "-r", str(request.level), "-j", "-i", ",".join(asked)
        )
        return answer_of_report(report, asked)

    async def _told(self, session: str, *command: str) -> str:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        self._running[session].add(process)
        try:
            output, _ = await process.communicate()
            return output.decode(errors="replace")
        finally:
            await _end(process)
            self._running[session].discard(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask it to end, so that DCGM stops its tests, and end it where it does not."""
    for number in (signal.SIGINT, signal.SIGKILL):
        if process.returncode is None:
            with suppress(ProcessLookupError):
                process.send_signal(number)
            with suppress(TimeoutError):
                async with asyncio.timeout(END_S):
                    await process.wait()


def numbers_of(listed: str) -> dict[str, int]:
    """DCGM's number of each GPU by the driver's id, from its table of devices."""
    found: dict[str, int] = {}
    number = -1
    for line in listed.splitlines():
        row, device = _ROW.match(line), _DEVICE.search(line)
        number = int(row.group(1)) if row else number
        if device:
            found[device.group(1)] = number
    return found


def answer_of_report(report: str, devices: Mapping[str, str]) -> TestAnswer:
    """What DCGM's report says of these devices, each by its number."""
    start = report.find("{")
    try:
        document = json.loads(report[start:]) if start >= 0 else None
    except ValueError:
        document = None
    categories = list(_categories(document))
    if not categories:
        said = next((line.strip() for line in report.splitlines() if line.strip()), "nothing")
        return TestAnswer(problem=f"DCGM gave no report: {said}")
    failed: defaultdict[str, list[str]] = defaultdict(list)
    for test, result in _results(categories):
        if str(result.get("status", "")).lower().startswith("fail"):
            for number in _numbers(result) or list(devices):
                failed[number].append(f"{test} failed{_why(result)}")
    results = {
        device: DeviceResult(problem=f"DCGM: {'; '.join(failed[number])}" if failed[number] else "")
        for number, device in devices.items()
    }
    return TestAnswer(devices=results)


def _categories(document: Any) -> Iterator[Mapping[str, Any]]:
    """The categories of tests, wherever they stand."""
    if isinstance(document, dict):
        for name, value in document.items():
            yield from value if name == "test_categories" else _categories(value)


def _results(categories: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for category in categories:
        for test in category.get("tests", ()):
            for result in test.get("results", ()):
                yield str(test.get("name", "a test")), result


def _numbers(result: Mapping[str, Any]) -> list[str]:
    """The GPUs that a result is about; `gpu_ids` until DCGM 3, `entity_id` since DCGM 4."""
    given = result.get("gpu_ids", result.get("gpu_id", result.get("entity_id", "")))
    return [number.strip() for number in str(given).split(",") if number.strip()]


def _why(result: Mapping[str, Any]) -> str:
    warnings = result.get("warnings", "")
    texts = [str(each.get("warning", "")) for each in warnings] if isinstance(warnings, list) else [str(warnings)]
    told = " ".join(text.strip() for text in texts if text.strip())
    return f" ({told})" if told else ""
