"""Settings of the agent's probe that would otherwise be found wrong only where a node is diagnosed.

Faults that are to be pretended must be known, and of nodes of this machine; an interpreter must be a program that is
there. On a machine of its own an agent says such things in its log.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from typing import Final

from services.agent.prober import FAULTS
from shared.variables import SettingsError

PROBE_FAULTS: Final = "TRAINMASTER_PROBE_FAULTS"
PROBE_PYTHON: Final = "TRAINMASTER_PROBE_PYTHON"


def refuse_wrong_python(environ: Mapping[str, str]) -> None:
    """Raise SettingsError where the interpreter for tests is no program."""
    python = environ.get(PROBE_PYTHON, "")
    if python and shutil.which(python) is None:
        raise SettingsError(f"{PROBE_PYTHON}: there is no program {python}; give an interpreter that has PyTorch")


def refuse_wrong_faults(environ: Mapping[str, str], nodes: Collection[str]) -> None:
    """Raise SettingsError where a fault is unknown, or of a node that this machine does not have."""
    for entry in filter(None, map(str.strip, environ.get(PROBE_FAULTS, "").split(","))):
        node, _, fault = (part.strip() for part in entry.partition("="))
        if fault not in FAULTS:
            raise SettingsError(f"{PROBE_FAULTS}: {entry} names no fault; write NODE_ID={'|'.join(FAULTS)}")
        if node not in nodes:
            raise SettingsError(f"{PROBE_FAULTS}: there is no node {node}; the ids are {', '.join(sorted(nodes))}")
