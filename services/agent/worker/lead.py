"""The process that the agent starts for a diagnosis: forks the ranks, hands questions on, puts their answers together.

It imports PyTorch once, before it forks, so that a rank is there in milliseconds and shares that memory; it never uses
PyTorch itself, since neither threads nor a GPU's driver survive a fork. A question is a JSON line on stdin with an
`id`, its answer one on stdout with the same `id`; several nodes may be asked at the same time. `{"drop": NODE}` ends a
node's ranks. The first line on stdout says that it is ready. It ends, with all its ranks, when stdin does, or when
nothing is asked for `IDLE_S`.

The ranks of CPUs are asked one after the other, since they share memory and caches, those of GPUs at the same time.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .rank import Rank, run

IDLE_S = 120.0
_READ_BYTES = 1 << 16
_GET_ADDRESS = 0x8915
_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_ALONE = frozenset({"compute", "memory", "hostDevice"})
_TOGETHER = frozenset({"exchange", "gang"})

Result = dict[str, Any]
Asked = dict[str, Any]


@dataclass(frozen=True)
class Means:
    """With what is tested: PyTorch, or why not; and whether it can use GPUs."""

    with_torch: bool
    with_gpus: bool
    without: str = ""

    def names(self, devices: Sequence[str]) -> list[str]:
        """The devices that ranks are made for."""
        if devices and self.with_gpus:
            return list(devices)
        return list(_devices().cpu_names()) if self.with_torch else [f"cpu-{min(os.sched_getaffinity(0))}"]

    def about(self, devices: Sequence[str]) -> dict[str, str]:
        """How the node is tested, for the report."""
        transport = ("nccl" if devices and self.with_gpus else "gloo") if self.with_torch else "tcp"
        without = self.without or ("PyTorch was built without CUDA" if devices and not self.with_gpus else "")
        return {"transport": transport, "python": sys.executable, **({"without": without} if without else {})}


def find_means(without: str = "") -> Means:
    """Import PyTorch where it is there, and nothing speaks against it."""
    if without:
        return Means(with_torch=False, with_gpus=False, without=without)
    try:
        torch = importlib.import_module("torch")
        _devices()
    except (ImportError, OSError, RuntimeError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        return Means(with_torch=False, with_gpus=False, without=f"{sys.executable} has no PyTorch: {reason}")
    return Means(with_torch=True, with_gpus=torch.version.cuda is not None)


def _devices() -> Any:
    return importlib.import_module(".devices", __package__)


@dataclass
class Process:
    """A rank, seen from here."""

    pid: int
    questions: int
    answers: int
    name: str
    buffer: bytearray = field(default_factory=bytearray)

    def ask(self, asked: Asked) -> None:
        """Hand a question on; where the process is gone, its end is read instead of an answer."""
        try:
            os.write(self.questions, json.dumps(asked).encode() + b"\n")
        except BrokenPipeError:
            return

    def end(self) -> int:
        """Kill it; gives its exit code, or the signal that ended it as a negative number."""
        os.kill(self.pid, signal.SIGKILL)
        _pid, status = os.waitpid(self.pid, 0)
        os.close(self.questions)
        os.close(self.answers)
        return os.waitstatus_to_exitcode(status)


@dataclass
class Test:
    """A question that is being answered: by whom still, by whom later, and what came so far."""

    asked: Asked
    asking: list[Process]
    later: list[Process]
    answers: list[Result] = field(default_factory=list)


class Lead:
    """All nodes of one diagnosis that are on this machine."""

    def __init__(self, host: str, means: Means) -> None:
        self._host = host
        self._means = means
        self._nodes: dict[str, list[Process]] = {}
        self._tests: dict[int, Test] = {}

    def take(self, asked: Asked) -> Iterator[Result]:
        """Begin to answer; gives what is answered by that already."""
        if "drop" in asked:
            yield from self._drop(asked["drop"])
            return
        names = self._means.names(asked["devices"])
        ranks = self._nodes.setdefault(asked["node"], [])
        if not ranks:
            ranks += [
                self._forked(Rank(asked["node"], index, names, self._host, self._means.with_torch))
                for index in range(len(names))
            ]
        chosen = self._chosen(asked, ranks)
        one_by_one = asked["test"] in _ALONE and names[0].startswith("cpu-")
        now, later = (chosen[:1], chosen[1:]) if one_by_one else (chosen, [])
        self._tests[asked["id"]] = Test(asked, list(now), list(later))
        for each in now:
            each.ask(asked)

    def read(self, descriptor: int) -> Iterator[Result]:
        """Take what a rank says; gives the questions that are answered by it."""
        process = next(each for each in self._processes() if each.answers == descriptor)
        came = os.read(descriptor, _READ_BYTES)
        if not came:
            yield from self._ended(process)
            return
        process.buffer += came
        while b"\n" in process.buffer:
            line, _, rest = process.buffer.partition(b"\n")
            process.buffer = rest
            yield from self._told(process, json.loads(line))

    @property
    def descriptors(self) -> list[int]:
        """Where ranks answer."""
        return [each.answers for each in self._processes()]

    @property
    def is_busy(self) -> bool:
        """Whether something is being answered."""
        return bool(self._tests)

    def close(self) -> None:
        """End all ranks."""
        for node in list(self._nodes):
            list(self._drop(node))

    def _chosen(self, asked: Asked, ranks: list[Process]) -> list[Process]:
        if asked["test"] == "serve" or (asked["test"] in _TOGETHER and asked["transport"] == "tcp"):
            return ranks[:1]
        if asked["test"] in _TOGETHER:
            return ranks[: asked["ranks_each"]]
        return [ranks[index] for index in asked["ranks"]] if asked["test"] == "link" else ranks

    def _told(self, process: Process, answer: Result) -> Iterator[Result]:
        test = self._tests.get(answer.pop("id"))
        if test is None or process not in test.asking:
            return
        if answer.pop("spent", False):
            yield from self._drop(test.asked["node"], f"{process.name}: {answer['problem']}")
            return
        test.asking.remove(process)
        if answer.get("problem"):
            answer["problem"] = f"{process.name}: {answer['problem']}"
        test.answers.append(answer)
        if test.later:
            following = test.later.pop(0)
            test.asking.append(following)
            following.ask(test.asked)
        elif not test.asking:
            yield self._whole(test)

    def _whole(self, test: Test) -> Result:
        del self._tests[test.asked["id"]]
        about = self._means.about(test.asked["devices"])
        whole = merged(test.answers)
        if test.asked["test"] == "begin":
            whole["about"] = {**whole.get("about", {}), **about}
        return {"id": test.asked["id"], **whole}

    def _ended(self, process: Process) -> Iterator[Result]:
        """A rank is gone: so are the others of its node, since a group without it would wait."""
        node = next(node for node, ranks in self._nodes.items() if process in ranks)
        self._nodes[node].remove(process)
        yield from self._drop(node, f"{process.name}: its process ended ({process.end()})")

    def _drop(self, node: str, why: str = "it was ended") -> Iterator[Result]:
        for each in self._nodes.pop(node, []):
            each.end()
        for number, test in list(self._tests.items()):
            if test.asked["node"] == node:
                del self._tests[number]
                yield {"id": number, "problem": why}

    def _processes(self) -> list[Process]:
        return [each for ranks in self._nodes.values() for each in ranks]

    def _forked(self, rank: Rank) -> Process:
        theirs, questions = os.pipe()
        answers, ours = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _let_go([each.questions for each in self._processes()] + self.descriptors + [questions, answers])
                run(rank, theirs, ours)
            finally:
                os._exit(1)
        os.close(theirs)
        os.close(ours)
        return Process(pid, questions, answers, rank.name)


def merged(answers: Sequence[Mapping[str, Any]]) -> Result:
    """The answers of a node's ranks as one: of figures the least, but of a bandwidth of several ways their sum."""
    whole: Result = {"figures": {}, "devices": {}}
    for answer in answers:
        whole["devices"].update(answer.get("devices", {}))
        whole.update({key: answer[key] for key in ("served", "about") if key in answer})
    problems = [answer["problem"] for answer in answers if answer.get("problem")]
    told = [answer["figures"] for answer in answers if answer.get("figures")]
    for name in {name for each in told for name in each}:
        values = [each[name] for each in told if name in each]
        whole["figures"][name] = sum(values) if name == "bandwidthMbS" else min(values)
        if name == "bandwidthMbS" and len(values) > 1:
            whole["rails"] = values
    return {**whole, **({"problem": problems[0]} if problems else {})}


def _let_go(descriptors: Sequence[int]) -> None:
    """In a rank: what belongs to others is closed, and its output goes nowhere, since the lead's is for answers."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1):
        os.dup2(nowhere, standard)
    for descriptor in descriptors:
        os.close(descriptor)


def interface_of(host: str) -> str:
    """The network interface that has this address, which groups are to use; empty where none has it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _index, name in socket.if_nameindex():
            try:
                told = fcntl.ioctl(probe, _GET_ADDRESS, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue
            if socket.inet_ntoa(told[20:24]) == host:
                return name
    return ""


def _prepare(host: str) -> None:
    """What PyTorch and its libraries read when they are loaded."""
    for name in _ONE_THREAD:
        os.environ[name] = "1"
    os.environ["TORCH_NCCL_BLOCKING_WAIT"] = "1"
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    interface = interface_of(host)
    if interface:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)
        os.environ.setdefault("NCCL_SOCKET_IFNAME", f"={interface}")


def _say(line: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


def main(host: str, without: str = "") -> None:
    """Answer until stdin ends or nothing comes for a while."""
    _prepare(host)
    means = find_means(without)
    _say({"ready": means.with_torch})
    lead, buffer = Lead(host, means), b""
    try:
        while True:
            ready = select.select([0, *lead.descriptors], [], [], IDLE_S)[0]
            if not ready and not lead.is_busy:
                return
            for descriptor in ready:
                if descriptor != 0:
                    if descriptor in lead.descriptors:
                        _say_all(lead.read(descriptor))
                    continue
                came = os.read(0, _READ_BYTES)
                if not came:
                    return
                *lines, buffer = (buffer + came).split(b"\n")
                for line in lines:
                    _say_all(lead.take(json.loads(line)))
    finally:
        lead.close()


def _say_all(lines: Iterator[Result]) -> None:
    for line in lines:
        _say(line)
