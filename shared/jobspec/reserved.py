"""Names that mean something to the platform: the role of rank 0, and the variables that it sets in every replica.

No job may set these variables itself. One of them is also an instruction: `VC_<ROLE>_NUM` in a spec sets the number of
replicas of that role. `<ROLE>` is the role's name upper-cased with `-` as `_`.
"""

from __future__ import annotations

import re
from typing import Final

MASTER_ROLE: Final = "master"
# Where the `deepspeed` launcher looks for the hosts where it is not told otherwise.
DEEPSPEED_HOSTFILE: Final = "/job/hostfile"
RESERVED_NAMES: Final = frozenset({"MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "NPROC_PER_NODE"})
RESERVED_PREFIXES: Final = ("PET_", "TM_", "VC_")

_REPLICA_VARIABLE = re.compile(r"VC_([A-Z0-9_]+)_NUM", re.ASCII)


def is_reserved(name: str) -> bool:
    """Whether the platform sets the variable, or may come to set one of this prefix."""
    return name in RESERVED_NAMES or name.startswith(RESERVED_PREFIXES)


def role_token(role: str) -> str:
    """The role's name as it stands in variable names."""
    return role.upper().replace("-", "_")


def role_token_of_variable(name: str) -> str | None:
    """The role token in a `VC_<ROLE>_NUM` variable; None for every other name."""
    match = _REPLICA_VARIABLE.fullmatch(name)
    return match[1] if match else None
