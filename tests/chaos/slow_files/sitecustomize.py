"""Slow files for the node agent: with this on its PYTHONPATH they take longer while a flag lies in its home.

Python runs this module at its start. It acts in the node agent alone; the flag is the file `slow-files`. Opening and
listing are heard of by an audit hook, reading and writing by descriptor are wrapped. So the agent stands still in the
middle of its work for as long as the file takes, as it does on a disk or a share that is overloaded.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

DELAY_S = 0.1
FLAG = "slow-files"
_EVENTS = frozenset({"open", "os.listdir", "os.scandir", "os.rename", "os.remove", "os.truncate"})


def _wait() -> None:
    # `os.stat` is not audited, so that this does not come back here.
    try:
        os.stat(_PATH)  # noqa: PTH116  # as few modules as possible are loaded at the start of every process
    except OSError:
        return
    time.sleep(DELAY_S)


def _slowed(operation: Callable[..., Any]) -> Callable[..., Any]:
    def slow(*arguments: Any, **named: Any) -> Any:
        _wait()
        return operation(*arguments, **named)

    return slow


if "services.agent" in sys.orig_argv:
    _PATH = f"{os.environ['TRAINMASTER_HOME']}/{FLAG}"
    sys.addaudithook(lambda event, _arguments: _wait() if event in _EVENTS else None)
    os.pread, os.fsync, os.fdatasync = _slowed(os.pread), _slowed(os.fsync), _slowed(os.fdatasync)
