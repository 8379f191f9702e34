"""Runs one more command in the sandbox of a running replica, beside the replica's own.

    python3 -I -S exec_in.py PID NAMESPACE GROUP DIRECTORY COMMAND ARGUMENT...

PID is the replica's runner as the host numbers it, NAMESPACE the inode of its PID namespace, by which a process that
got the same number later is told from it; GROUP is the `cgroup.procs` of its memory group, or empty. The command gets
the environment of the replica's own command, and no more rights than that: no capabilities, and none to be gained.

This process stays outside of the PID namespace, and so out of reach for what runs in there; it only waits. Its end is
the command's; TERM ends the command and its process group. The exit code is the command's, 128 + N where signal N ended
it, 125 where the sandbox could not be entered, 126 and 127 as in a shell.

Bubblewrap run by an ordinary user makes two user namespaces, one in the other: the outer owns what is to be entered and
the inner is where commands run, so the outer is entered first and the inner last.
"""

# ruff: noqa: PTH116, PTH123  # after the namespaces are entered nothing may be imported from the sandbox's files

from __future__ import annotations

import ctypes
import fcntl
import os
import resource
import signal
import sys
import time
from contextlib import suppress

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
CAPABILITY_VERSION_3 = 0x20080522
CAPABILITIES_MAX = 64
NS_GET_USERNS = 0xB701
EXIT_NOT_ENTERED, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND = 125, 126, 127
OOM_SCORE_OF_COMMAND = "500"
COMMAND_TRIES, COMMAND_PAUSE_S = 100, 0.02
LIBC = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    pid, namespace, group, directory, *command = sys.argv[1:]
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        namespaces = opened_namespaces(int(pid), int(namespace))
        environment = environment_of_command(int(pid))
        join_group(group)
        LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
        enter(namespaces)
    except OSError as error:
        return told(f"the replica's sandbox cannot be entered: {error.strerror or error}", EXIT_NOT_ENTERED)
    child = os.fork()
    if child == 0:
        become(command, directory, environment)
    signal.signal(signal.SIGTERM, lambda *_: end(child))
    return exit_code(os.waitpid(child, 0)[1])


def told(message: str, code: int) -> int:
    os.write(2, f"trainmaster: {message}\n".encode())
    return code


def opened_namespaces(pid: int, expected: int) -> dict[str, int]:
    """The namespaces of the runner, by what setns takes to be entered in this order."""
    opened = {kind: os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in KINDS}
    if os.fstat(opened["pid"]).st_ino != expected:
        raise ProcessLookupError(3, "the replica has ended")
    return opened


KINDS = ("mnt", "pid", "ipc", "uts", "user")


def enter(namespaces: dict[str, int]) -> None:
    here = os.stat("/proc/self/ns/user").st_ino
    owner = fcntl.ioctl(namespaces["mnt"], NS_GET_USERNS)
    if os.fstat(owner).st_ino != here:
        set_namespace(owner)
    for kind in ("pid", "ipc", "uts", "mnt"):
        set_namespace(namespaces[kind])
    inner = os.fstat(namespaces["user"]).st_ino
    if inner not in (here, os.fstat(owner).st_ino):
        set_namespace(namespaces["user"])
    os.close(owner)


def set_namespace(fd: int) -> None:
    if LIBC.setns(fd, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def environment_of_command(pid: int) -> dict[bytes, bytes]:
    """What the replica's own command was started with; it is the runner's first child."""
    for _ in range(COMMAND_TRIES):
        command = command_of(pid)
        if command is not None:
            variables = content(f"/proc/{command}/environ").split(b"\0")
            return dict(variable.split(b"=", 1) for variable in variables if b"=" in variable)
        time.sleep(COMMAND_PAUSE_S)
    raise ProcessLookupError(3, "the replica's command has ended")


def command_of(runner: int) -> int | None:
    """The runner's first child, once it is the command and no copy of the runner any more."""
    children = content(f"/proc/{runner}/task/{runner}/children").split()
    child = int(children[0]) if children else None
    is_copy = child is not None and content(f"/proc/{child}/cmdline") == content(f"/proc/{runner}/cmdline")
    return None if is_copy else child


def content(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def join_group(group: str) -> None:
    if group:
        with open(group, "w") as file:
            file.write("0")
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(OOM_SCORE_OF_COMMAND)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def become(command: list[str], directory: str, environment: dict[bytes, bytes]) -> None:
    try:
        os.setsid()
        give_up_rights()
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        os.umask(0o022)
        os.chdir(directory)
        execute(command, environment)
    except FileNotFoundError:
        os._exit(told(f"{command[0]}: there is no such command in the sandbox", EXIT_NOT_FOUND))
    except BaseException as error:  # noqa: BLE001  # nothing may run on as a copy of the parent
        os._exit(told(f"{command[0]}: {error}", EXIT_NOT_EXECUTABLE))


def give_up_rights() -> None:
    """No capability, none that a program could bring, none that another user's program could."""
    LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    LIBC.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    for capability in range(CAPABILITIES_MAX):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)  # those that the kernel does not know are refused
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    if LIBC.capset(header, (ctypes.c_uint32 * 6)()) != 0:
        raise PermissionError(1, "the rights of this process cannot be given up")


def execute(command: list[str], environment: dict[bytes, bytes]) -> None:
    """The look along PATH, without what the library's own would import now."""
    name = command[0]
    folders = [""] if "/" in name else os.fsdecode(environment.get(b"PATH", b"/usr/bin:/bin")).split(":")
    for folder in folders:
        with suppress(FileNotFoundError, NotADirectoryError):
            path = f"{folder}/{name}" if folder else name
            os.execve(path, command, environment)  # noqa: S606  # what this program is for
    raise FileNotFoundError(name)


def end(child: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)


def exit_code(status: int) -> int:
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


if __name__ == "__main__":
    os._exit(main())
