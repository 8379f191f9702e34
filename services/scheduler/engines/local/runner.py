"""The runner: one process a replica, which starts the command, stays until every descendant is gone, and tells the end.

It needs nothing but the standard library, knows no path and takes everything through open files, so that it works
inside a sandbox in which none of the platform's files can be seen, and goes on when the platform is gone.

    python3 -I -S runner.py NAME=FD ...

Descriptors 0, 1 and 2 are given too: 0 has the replica's lock, 1 and 2 are its log. The names are

    order     read once: NUL-terminated fields; working directory, limit of open files, number of arguments, the
              arguments of the command, and NAME=VALUE for each variable of its environment
    started   gets {"started_at"} right before the command is started
    exit      gets {"wait_status", "ended_at", "stopped_by_us", "oom"} once every descendant is gone; the status is the
              raw one of wait(2), so that `exit 137` and a KILL differ; null where the command was never started
    stop      empty, or {"grace_s"}: TERM to every descendant now, KILL to what is left after the grace. The file is the
              request, so that none is lost; a request with a shorter grace may replace it
    control   FIFO; a byte in it means that `stop` has changed
    bell      FIFO of the engine; gets a byte after `started` and after `exit`
    group     optional: `cgroup.procs` of the replica's memory group, which the command joins
    events    optional: the file of that group that has the line `oom_kill N`

The end of the replica is: `exit` is written, and the lock is free. The runner gives the lock up itself after it has
written; where it was killed, the kernel does. Everything it starts is gone by then: as process 1 of a PID namespace it
can reach every process in there, and its death is theirs; elsewhere it is a child subreaper, to which orphans come, and
it looks for descendants in /proc. Programs such as torchrun put workers into sessions of their own, so process groups
would not do.

User code must not reach the runner's descriptors: they are closed in the command, and the runner is not dumpable, so
that `/proc/<runner>/fd` and ptrace are refused to processes of the same user.

"oom" is "certain" when the memory group counted a kill. Without a group it is "suspected" when the machine's counter
rose and something ended by a KILL that the runner did not send (exit code 137 is how a shell tells that); a worker
whose death torchrun reports as exit code 1 cannot be told then.
"""

# ruff: noqa: PTH123, PTH208  # importing pathlib would double the time that a start takes

from __future__ import annotations

import ctypes
import fcntl
import math
import os
import resource
import select
import signal
import sys
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
OOM_SCORE_OF_COMMAND = b"500"
EXIT_NOT_EXECUTABLE = 126


class Order:
    def __init__(self, fields: list[str]) -> None:
        self.directory, nofile, argument_count, *rest = fields
        self.nofile = int(nofile)
        self.arguments = rest[: int(argument_count)]
        self.environment = dict(field.split("=", 1) for field in rest[int(argument_count) :])


class Runner:
    """One replica from its start to its end."""

    def __init__(self, fds: dict[str, int]) -> None:
        self.fds = fds
        with open(fds["order"], "rb") as order:
            self.order = Order(os.fsdecode(order.read()).split("\0")[:-1])
        self.status: int | None = None
        self.deadline: float | None = None
        self.stopped_by_us = False
        self.killing = False
        self.killed_by_others = False
        self.oom_kills_before = read_oom_kills()
        self.wake = wake_on_child_exit()
        prctl(PR_SET_DUMPABLE, 0)
        prctl(PR_SET_CHILD_SUBREAPER, 1)
        self.poller = select.poll()
        self.poller.register(self.wake, select.POLLIN)
        self.poller.register(fds["control"], select.POLLIN)

    def run(self) -> None:
        if self.stop_grace_s() is None:
            self.tell("started", f'{{"started_at": "{now()}"}}')
            main = self.start_command()
            self.attend(main)
            self.end_descendants(main)
        else:
            self.stopped_by_us = True
        self.tell("exit", self.outcome())

    def tell(self, name: str, text: str) -> None:
        while not written(self.fds[name], text.encode() + b"\n"):
            time.sleep(1)  # the disk is full, and what is to be told must not be lost
        if name == "exit":
            fcntl.flock(0, fcntl.LOCK_UN)
        with suppress(BlockingIOError):  # the bell is full of rings that nobody has heard yet
            os.write(self.fds["bell"], b"!")

    def start_command(self) -> int:
        pid = os.fork()
        if pid:
            return pid
        try:
            self.become_command()
        except OSError as error:
            os.write(2, f"trainmaster: cannot run the command in {self.order.directory}: {error}\n".encode())
        finally:
            os._exit(EXIT_NOT_EXECUTABLE)

    def become_command(self) -> None:
        os.setsid()
        prctl(PR_SET_NO_NEW_PRIVS, 1)
        if os.getppid() != 1:
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if "group" in self.fds:
            os.write(self.fds["group"], b"0")
        offer_to_oom_killer()
        reset_signals()
        set_limits(self.order.nofile)
        os.umask(0o022)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(self.order.directory)
        os.execve(self.order.arguments[0], self.order.arguments, self.order.environment)  # noqa: S606  # what a runner is for

    def attend(self, main: int) -> None:
        """Until the command has ended; after a stop until every descendant has, or the grace is over."""
        while True:
            alone = self.reap(main)
            if self.status is not None and (self.deadline is None or alone):
                return
            self.obey_stop()
            left_s = None if self.deadline is None else self.deadline - time.monotonic()
            if left_s is not None and left_s <= 0:
                return
            self.wait(None if left_s is None else left_s * 1000)

    def obey_stop(self) -> None:
        grace_s = self.stop_grace_s()
        if grace_s is None:
            return
        if self.deadline is None:
            self.stopped_by_us = self.status is None
            signal_descendants(signal.SIGTERM)
            signal_descendants(signal.SIGCONT)
        self.deadline = min(self.deadline or math.inf, time.monotonic() + grace_s)

    def stop_grace_s(self) -> float | None:
        text = os.pread(self.fds["stop"], 4096, 0)
        if not text.endswith(b"}"):
            return None
        import json  # noqa: PLC0415  # 6 ms that only a stopped replica should pay

        return float(json.loads(text)["grace_s"])

    def end_descendants(self, main: int) -> None:
        self.killing = True
        while not self.reap(main):
            signal_descendants(signal.SIGKILL)
            self.wait(timeout_ms=20)

    def reap(self, main: int) -> bool:
        """Take note of every child that has ended; true where no descendant is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            self.killed_by_others |= status & 0x7F == signal.SIGKILL and not self.killing
            if pid == main and self.status is None:
                self.status = status

    def wait(self, timeout_ms: float | None) -> None:
        for fd, _ in self.poller.poll(timeout_ms):
            os.read(fd, 4096)

    def outcome(self) -> str:
        status = "null" if self.status is None else self.status
        stopped = "true" if self.stopped_by_us else "false"
        return f'{{"wait_status": {status}, "ended_at": "{now()}", "stopped_by_us": {stopped}, "oom": "{self.oom()}"}}'

    def oom(self) -> str:
        in_group = count_in(os.pread(self.fds["events"], 4096, 0)) if "events" in self.fds else None
        killed = self.killed_by_others or (self.status == 137 << 8 and not self.stopped_by_us)
        return oom_verdict(in_group, read_oom_kills() - self.oom_kills_before, killed=killed)


def oom_verdict(kills_in_group: int | None, kills_on_machine: int, *, killed: bool) -> str:
    if kills_in_group is not None:
        return "certain" if kills_in_group > 0 else "none"
    return "suspected" if killed and kills_on_machine > 0 else "none"


def prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def now() -> str:
    seconds = time.time()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"


def written(fd: int, text: bytes) -> bool:
    try:
        return os.pwrite(fd, text, 0) == len(text)
    except OSError:
        return False


def count_in(counters: bytes) -> int:
    """The number in the line `oom_kill N`."""
    for line in counters.splitlines():
        name, _, number = line.partition(b" ")
        if name == b"oom_kill":
            return int(number)
    return 0


def read_oom_kills() -> int:
    """How many processes the whole machine has lost to a lack of memory."""
    with open("/proc/vmstat", "rb") as file:
        return count_in(file.read())


def offer_to_oom_killer() -> None:
    """When memory runs out, a job goes before the platform."""
    prctl(PR_SET_DUMPABLE, 1)  # makes the file our own again; no user code is in the sandbox yet
    with open("/proc/self/oom_score_adj", "wb") as file:
        file.write(OOM_SCORE_OF_COMMAND)


def reset_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def set_limits(nofile: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = nofile if hard == resource.RLIM_INFINITY else min(nofile, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def wake_on_child_exit() -> int:
    """Descriptor that becomes readable when a child ends."""
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def signal_descendants(number: int) -> None:
    for pid in [-1] if os.getpid() == 1 else descendants():  # -1 is everything in this PID namespace but ourselves
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants() -> list[int]:
    """Every process below this one, by what /proc says of parents now."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:  # it may have ended by now
                parent = int(file.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def close_all_but(kept: set[int]) -> None:
    """Close what came along by accident; an open directory would be a way out of the sandbox."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd in kept:
            os.set_inheritable(fd, fd <= 2)
        else:
            with suppress(OSError):  # the descriptor of the listing itself
                os.close(fd)


def main() -> None:
    fds = {name: int(number) for name, _, number in (argument.partition("=") for argument in sys.argv[1:])}
    close_all_but({0, 1, 2, *fds.values()})
    Runner(fds).run()
    os._exit(0)


if __name__ == "__main__":
    main()
