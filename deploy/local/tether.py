"""Ties a command to the life of its parent: asks the kernel for a signal at its death, then becomes the command.

Run as `python -I -S tether.py PARENT_PID SIGNAL COMMAND …`. This is a program of its own because asking between fork
and exec would run the fork hooks of every library in the launcher, and one that takes a lock there hangs the child for
ever.
"""

from __future__ import annotations

import ctypes
import os
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Become the command; ends at once where the parent is dead already."""
    parent, last, command = int(arguments[0]), int(arguments[1]), arguments[2:]
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, last)
    if os.getppid() != parent:
        sys.exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606  # becoming the command is the point
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error.strerror}")


if __name__ == "__main__":
    main(sys.argv[1:])
